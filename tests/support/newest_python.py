"""Finds the newest Python of this machine that is newer than the one that runs this, for `make test-newest`.

Prints its version and path on one line; nothing if there is none.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

_MINORS = range(30, sys.version_info.minor, -1)


def candidates() -> Iterator[tuple[str, Path]]:
    """Every place where such a Python may be, the newest first: the path, and the folder of pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    folders = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    for minor in _MINORS:
        name = f"python3.{minor}"
        for folder in (*folders, *sorted(pyenv.glob(f"3.{minor}.*/bin"), reverse=True)):
            if (folder / name).exists():
                yield f"3.{minor}", folder / name


def works(python: Path) -> bool:
    """Whether it starts, and can make a virtual environment: pyenv's own names for it may not."""
    return subprocess.run([python, "-c", "import ensurepip, venv"], capture_output=True, check=False).returncode == 0


if __name__ == "__main__":
    print(*next((found for found in candidates() if works(found[1])), ()))
