"""What Lakemark needs from the files and folders of a lake. Every kind of store (such as POSIX) is one class."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Protocol

from include.lake.uri import LakeUri


@dataclass(frozen=True)
class FileInfo:
    """One file below a folder."""

    name: str  # relative to the folder that was listed
    size: int  # bytes
    modified_at: float  # seconds since 1970


class Files(Protocol):
    """Files of one store, each under a URI."""

    def exists(self, uri: LakeUri) -> bool:
        """Whether a file or a folder lies there."""
        ...

    def list(self, folder: LakeUri) -> Iterator[FileInfo]:
        """All files below a folder, in any order; none if there is no such folder."""
        ...

    def open(self, file: LakeUri) -> BinaryIO:
        """Opens the file for reading from any position.

        Raises:
            OSError: it is not there, or not readable.
        """
        ...

    def make_folder(self, folder: LakeUri) -> None:
        """Makes a folder and those above it. Does nothing if the folder exists, or if the store has no folders."""
        ...

    def move(self, folder: LakeUri, to: LakeUri) -> None:
        """Gives a folder another name."""
        ...

    def delete(self, folder: LakeUri) -> None:
        """Deletes a folder with everything in it."""
        ...

    def tables_around(self, folder: LakeUri) -> Iterator[LakeUri]:
        """The Delta tables whose folders contain this folder, then those inside it. Follows links."""
        ...
