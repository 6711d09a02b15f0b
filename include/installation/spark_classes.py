"""Compiles Lakemark's Java classes for Spark, and packs them into one JAR.

`PosixLogStore` commits to Delta tables on a POSIX file system. Delta's own LocalLogStore is not safe for more than one
process: it checks, then renames, and a rename replaces. `Functions` are SQL functions that read JSON, CSV and texts:
Spark's own functions silently accept much that is none of these. The compiler is Janino, which PySpark ships and which
runs on any Java, so no JDK is needed.
"""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
import zipfile
from pathlib import Path

from include.installation.jars import jar_paths, pyspark_home
from include.installation.java import Java
from include.protocol.errors import TerminalError

SOURCES = sorted(Path(__file__).parent.glob("*.java"))
OPTIONS = {
    # Delta chooses a log store by the scheme of a table's path.
    "spark.delta.logStore.file.impl": "lakemark.PosixLogStore",
    # Spark finds functions that are named `lakemark.NAME` in this catalog.
    "spark.sql.catalog.lakemark": "lakemark.Functions",
}
_SOURCES_NAME = "lakemark/SOURCES.sha256"  # in the JAR: what it was made of


def spark_classes(jars: Path) -> Path:
    """The JAR, for the class paths of Spark's drivers and executors."""
    return jars / "spark" / "lakemark.jar"


def compile_spark_classes(jars: Path, java: Java) -> bool:
    """Makes the JAR, unless a JAR of exactly these sources exists. Returns whether it made one.

    Raises:
        TerminalError: the compiler refuses the sources, which is a defect of Lakemark or of its pins.
    """
    made, digest = spark_classes(jars), _digest()
    if _sources_of(made) == digest:
        return False
    spark = pyspark_home() / "jars"
    compiler = [next(spark.glob("janino-*.jar")), next(spark.glob("commons-compiler-*.jar"))]
    known = [*sorted(spark.glob("*.jar")), *jar_paths(jars, "spark"), *jar_paths(jars, "s3a")]
    made.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=made.parent) as folder:
        done = subprocess.run(
            [
                *(java.binary, "-cp", _path(compiler), "org.codehaus.commons.compiler.samples.CompilerDemo"),
                *("-d", folder, "-classpath", _path(known), *map(str, SOURCES)),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        classes = sorted(Path(folder).rglob("*.class"))
        missing = {source.stem for source in SOURCES} - {made.stem for made in classes}
        if done.returncode or missing:
            raise TerminalError(
                what="Lakemark's Java could not be compiled",
                where=", ".join(map(str, SOURCES)),
                expected=str(made),
                found=(done.stderr or done.stdout)[-1500:] or f"exit code {done.returncode}, without {missing}",
                action="run `make setup` again; if it persists, report it with this message",
            )
        packed = Path(folder) / made.name
        with zipfile.ZipFile(packed, "w") as archive:
            for file in classes:
                archive.write(file, file.relative_to(folder))
            archive.writestr(_SOURCES_NAME, digest)
        packed.replace(made)  # whole or not at all; a running Spark keeps the JAR that it has opened
    return True


def _path(jars: list[Path]) -> str:
    return ":".join(map(str, jars))


def _digest() -> str:
    return hashlib.sha256(b"".join(source.read_bytes() for source in SOURCES)).hexdigest()


def _sources_of(jar: Path) -> str | None:
    try:
        with zipfile.ZipFile(jar) as archive:
            return archive.read(_SOURCES_NAME).decode()
    except (OSError, KeyError, zipfile.BadZipFile):
        return None
