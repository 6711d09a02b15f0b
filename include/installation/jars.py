"""Fetches the pinned JARs with Ivy, the client that PySpark ships, and checks their SHA-256 sums.

Ivy knows the public registry by itself, uses a team's `~/.ivy2/ivysettings.xml` if there is one, and runs on any Java,
so no Maven is needed. It fetches only what is pinned here (nothing transitive), so Spark and Kafka load this list and
nothing else.
"""

from __future__ import annotations

import hashlib
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, get_args
from xml.sax.saxutils import quoteattr

from include.installation.java import Java
from include.protocol.errors import TerminalError

PINS = Path(__file__).with_name("jars.txt")
Use = Literal["broker", "spark", "s3a", "test", "s3", "registry", "hudi", "mariadb"]
USES: tuple[Use, ...] = get_args(Use)
OF_SETUP: tuple[Use, ...] = ("broker", "spark", "s3a", "s3")  # what users need; the rest is for tests and benchmarks


@dataclass(frozen=True)
class Jar:
    use: Use
    group: str
    artifact: str
    version: str
    sha256: str
    packaging: str = "jar"  # or CLASSIFIER@EXTENSION: a whole distribution

    @property
    def extension(self) -> str:
        return self.packaging.rpartition("@")[2]

    @property
    def classifier(self) -> str:
        return self.packaging.rpartition("@")[0]

    @property
    def file_name(self) -> str:
        return f"{self.artifact}-{self.version}.{self.extension}"


def pinned_jars(pins: Path = PINS) -> list[Jar]:
    """The list in jars.txt: `use group:artifact:version[:CLASSIFIER@EXTENSION] sha256`, one JAR per line, `#` for
    comments."""
    lines = (line.split("#")[0].split() for line in pins.read_text().splitlines())
    found = []
    for use, coordinate, sha256 in filter(None, lines):
        group, artifact, version, *packaging = coordinate.split(":")
        assert len(packaging) <= 1, f"{pins.name}: {coordinate}"
        more = {"packaging": packaging[0]} if packaging else {}
        jar = Jar(use, group, artifact, version=version, sha256=sha256, **more)  # type: ignore[arg-type]  # see `Use`
        found.append(jar)
    return found


def jar_paths(folder: Path, use: Use) -> list[Path]:
    return [folder / use / jar.file_name for jar in pinned_jars() if jar.use == use]


def verify_fetched(folder: Path, uses: Sequence[Use] = OF_SETUP) -> None:
    """Raises TerminalError: JARs of these uses are not in the folder. It compares no sums: `fetch_jars` does."""
    wanted = [path for use in uses for path in jar_paths(folder, use)]
    missing = [path for path in wanted if not path.exists()]
    if missing:
        raise TerminalError(
            what="JARs are missing",
            where=str(folder),
            expected=f"{len(wanted)} JARs for {' and '.join(uses)}",
            found=f"{len(wanted) - len(missing)}",
            action=f"`LAKEMARK_JARS={shlex.quote(str(folder))} {shlex.quote(sys.executable)} -m include.installation` "
            "fetches them; or set LAKEMARK_JARS to a folder that has them, such as `.lakemark/jars` of this project "
            "after `make setup`",
        )


def pyspark_home() -> Path:
    """PySpark's folder, found without importing PySpark."""
    spec = find_spec("pyspark")
    assert spec is not None and spec.origin is not None, "PySpark is in requirements.txt"
    return Path(spec.origin).parent


def fetch_jars(folder: Path, java: Java, certificates: str | None, uses: Sequence[Use] = OF_SETUP) -> int:
    """Fetches the pinned JARs of these uses into `folder/USE/`, and returns how many it fetched. Correct files stay.

    Args:
        certificates: a PEM bundle that connections must trust beside Java's own (for instance of a company's proxy).
            `SSL_CERT_FILE` names it for other programs, but Java does not read that variable.

    Raises:
        TerminalError: a JAR could not be fetched, or does not have the pinned sum (then it is removed).
    """
    wanted = [jar for jar in pinned_jars() if jar.use in uses]
    missing = [jar for jar in wanted if _sum(folder / jar.use / jar.file_name) != jar.sha256]
    if not missing:
        return 0
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        _run_ivy(missing, folder, java, certificates=certificates, scratch=Path(scratch))
    for jar in missing:
        path = folder / jar.use / jar.file_name
        found = _sum(path)
        if found != jar.sha256:
            path.unlink(missing_ok=True)
            raise TerminalError(
                what="a fetched JAR is not the pinned one",
                where=str(path),
                expected=f"sha256 {jar.sha256}",
                found=f"sha256 {found}" if found else "no file",
                action="run `make setup` again; if it persists, the registry that you use serves another file",
            )
    return len(missing)


def _run_ivy(jars: list[Jar], folder: Path, java: Java, certificates: str | None, scratch: Path) -> None:
    module = scratch / "ivy.xml"
    module.write_text(
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        '<info organisation="lakemark" module="jars"/>'
        f"<configurations>{''.join(f'<conf name={quoteattr(use)}/>' for use in USES)}</configurations><dependencies>"
        + "".join(
            f"<dependency org={quoteattr(jar.group)} name={quoteattr(jar.artifact)} rev={quoteattr(jar.version)}"
            f' conf="{jar.use}->master" transitive="false">{_artifact(jar)}</dependency>'
            for jar in jars
        )
        + "</dependencies></ivy-module>"
    )
    ivy = next((pyspark_home() / "jars").glob("ivy-*.jar"))
    settings = Path.home() / ".ivy2" / "ivysettings.xml"
    command = [
        str(java.binary),
        *(_trust(certificates, scratch) if certificates else []),
        f"-Divy.default.ivy.user.dir={folder.parent / 'ivy'}",
        *("-jar", str(ivy), "-ivy", str(module), "-types", *sorted({"jar", "bundle", *(j.extension for j in jars)})),
        *("-confs", *USES),
        *(("-settings", str(settings)) if settings.exists() else ()),
        *("-retrieve", f"{folder}/[conf]/[artifact]-[revision].[ext]"),
    ]
    print(f"fetching {len(jars)} JARs with Ivy ...", flush=True)
    process = subprocess.Popen(command, cwd=scratch, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert process.stdout is not None
    said: list[str] = []
    for line in process.stdout:
        said.append(line)
        if "SUCCESSFUL" in line:
            print("  " + " ".join(line.split()[2:4]), flush=True)
    if process.wait() != 0:
        problems = "".join(line for line in said if "WARN" in line or "error" in line.lower()) or "".join(said)
        print(problems[-4000:], file=sys.stderr)
        raise TerminalError(
            what="Ivy could not fetch the pinned JARs",
            where=str(folder),
            expected=f"{len(jars)} JARs",
            found=f"Ivy's exit code {process.returncode}; its messages are above",
            action="check that this machine reaches a Maven registry (put a team's own registry into "
            "~/.ivy2/ivysettings.xml, and a proxy's certificate into SSL_CERT_FILE), and run `make setup` again",
        )


def _artifact(jar: Jar) -> str:
    if jar.packaging == "jar":
        return ""
    kind = quoteattr(jar.extension)
    return f"<artifact name={quoteattr(jar.artifact)} type={kind} ext={kind} m:classifier={quoteattr(jar.classifier)}/>"


def _trust(certificates: str, scratch: Path) -> list[str]:
    """Java's options to trust a PEM bundle. The bundle is converted to a trust store that Java reads."""
    import warnings

    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # old public roots have serial numbers that today's rules refuse
        bundle = x509.load_pem_x509_certificates(Path(certificates).read_bytes())
        entries = [pkcs12.PKCS12Certificate(certificate, f"ca-{n}".encode()) for n, certificate in enumerate(bundle)]
        store = pkcs12.serialize_java_truststore(entries, BestAvailableEncryption(b"changeit"))
    path = scratch / "trust.p12"
    path.write_bytes(store)
    return [f"-Djavax.net.ssl.trustStore={path}", "-Djavax.net.ssl.trustStorePassword=changeit"]


def _sum(path: Path) -> str | None:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else None
