"""Lines in a file of a POSIX file system."""

from __future__ import annotations

from typing import TextIO

from include.lake.posix.errors import answering
from include.lake.posix.path import posix_path
from include.lake.uri import LakeUri


class PosixLines:
    """See `Lines`: one file."""

    def __init__(self, uri: LakeUri) -> None:
        self._path, self._read = posix_path(uri), 0
        self._file: TextIO | None = None

    def add(self, line: str) -> None:
        with answering(self._path):
            if self._file is None:
                self._file = self._path.open("a")
            print(line, file=self._file, flush=True)

    def new(self) -> list[str]:
        try:
            with answering(self._path), self._path.open("rb") as file:
                file.seek(self._read)
                new = file.read()
        except FileNotFoundError:
            return []
        whole = new[: new.rfind(b"\n") + 1]  # the last one may be on its way
        self._read += len(whole)
        return whole.decode(errors="replace").split("\n")[:-1]

    def remove(self) -> None:
        with answering(self._path):
            self._path.unlink(missing_ok=True)
