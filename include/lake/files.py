"""What Lakemark asks of the files and folders of a lake. A kind of store (POSIX, say) is one class that does this."""

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
        """All files below a folder, in no order; none if there is no such folder."""
        ...

    def open(self, file: LakeUri) -> BinaryIO:
        """The file, to be read from any position.

        Raises:
            OSError: it is not there, or not readable.
        """
        ...

    def make_folder(self, folder: LakeUri) -> None:
        """Makes a folder and those above it; nothing happens where it is there, or where a store has no folders."""
        ...

    def move(self, folder: LakeUri, to: LakeUri) -> None:
        """Gives a folder another name."""
        ...

    def delete(self, folder: LakeUri) -> None:
        """Deletes a folder with all that is in it."""
        ...

    def tables_around(self, folder: LakeUri) -> Iterator[LakeUri]:
        """Delta tables in whose folder this one lies, then those that lie in this one. Links are followed."""
        ...
