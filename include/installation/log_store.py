"""Compiles PosixLogStore.java, by which Spark commits to Delta tables on a POSIX file system.

Delta's own LocalLogStore is not safe for more than one process: it looks, then renames, and a rename replaces. The Java
compiler is Janino, which PySpark ships and which runs on any Java: no JDK is needed.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from include.installation.jars import jar_paths, pyspark_home
from include.installation.java import Java
from include.protocol.errors import TerminalError

SOURCE = Path(__file__).with_name("PosixLogStore.java")
# Delta finds a log store by the scheme of a table's path.
OPTIONS = {"spark.delta.logStore.file.impl": "lakemark.PosixLogStore"}


def classes(jars: Path) -> Path:
    """The folder of the class, for Spark's class path."""
    return jars / "spark" / "classes"


def compile_log_store(jars: Path, java: Java) -> bool:
    """Compiles it unless that has been done; returns whether it had to.

    Raises:
        TerminalError: the compiler refuses it, which is a defect of Lakemark or of its pins.
    """
    made = classes(jars) / "lakemark" / "PosixLogStore.class"
    if made.exists() and made.stat().st_mtime >= SOURCE.stat().st_mtime:
        return False
    spark = pyspark_home() / "jars"
    compiler = [next(spark.glob("janino-*.jar")), next(spark.glob("commons-compiler-*.jar"))]
    known = [next(spark.glob("hadoop-client-api-*.jar")), *jar_paths(jars, "spark")]
    made.parent.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [
            *(java.binary, "-cp", ":".join(map(str, compiler)), "org.codehaus.commons.compiler.samples.CompilerDemo"),
            *("-d", classes(jars), "-classpath", ":".join(map(str, known)), SOURCE),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode or not made.exists():
        raise TerminalError(
            what="the log store could not be compiled",
            where=str(SOURCE),
            expected=str(made),
            found=(done.stderr or done.stdout)[-1500:] or f"exit code {done.returncode}",
            action="run `make setup` again; if it persists, report it with this message",
        )
    return True
