"""What Lakemark needs from the files and folders of a lake. Every kind of store (such as POSIX) is one class."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
        """Whether a file or a folder is there. In a store without folders, a folder is there if a file is below it."""
        ...

    def list(self, folder: LakeUri) -> Iterator[FileInfo]:
        """All files below a folder, in any order; none if there is no such folder. Files that come or go meanwhile may
        be among them or not. Does not follow links to folders."""
        ...

    def folders(self, folder: LakeUri) -> Sequence[str]:
        """The names of the folders directly in a folder, in order; none if there is no such folder."""
        ...

    def open(self, file: LakeUri, lasting_size: int | None = None) -> BinaryIO:
        """Opens the file for reading from any position.

        Args:
            lasting_size: in bytes, of a file that never changes, such as a data file: where that spares something, it
                is not asked for, and what was read is kept.

        Raises:
            OSError: it is not there, or not readable.
        """
        ...

    def create(self, file: LakeUri, content: bytes) -> None:
        """Creates a file that no other writer names. When this returns, a loss of power does not lose it.

        Raises:
            OSError: the store refuses, or there is such a file. Part of the new file may be there.
        """
        ...

    def publish(self, file: LakeUri, content: bytes) -> bool:
        """Creates a file, whole or not at all. False if there is one, which stays as it is.

        Raises:
            OSError: the store refuses. StoreUnclear: the file may be there or not.
        """
        ...

    def write(self, file: LakeUri, content: BinaryIO) -> None:
        """Writes a file of any size, whole or not at all. Replaces one that is there.

        Raises:
            OSError: the store refuses, or what is read from.
        """
        ...

    def link(self, file: LakeUri, to: LakeUri) -> None:
        """Gives a file that never changes a second name in the same store, whole or not at all; if there is a file of
        that name, it stays. By a hard link where that is possible, or else by a copy that the store makes itself. Its
        time of modification is now.

        Raises:
            FileNotFoundError: there is no such file. OSError: the store refuses.
        """
        ...

    def make_folder(self, folder: LakeUri) -> None:
        """Makes a folder and those above it. Does nothing if the folder exists, or if the store has no folders."""
        ...

    def move(self, folder: LakeUri, to: LakeUri) -> None:
        """Gives a folder another name, in one atomic step where the store can do that.

        Raises:
            OSError: there is no such folder, or there are files under the other name. Nothing has moved.
        """
        ...

    def remove(self, file: LakeUri) -> None:
        """Removes a file. Does nothing if it is not there.

        Raises:
            OSError: the store refuses.
        """
        ...

    def delete(self, folder: LakeUri) -> None:
        """Deletes a folder with everything in it.

        Raises:
            OSError: there is no such folder, or the store refuses. Part of it may be deleted: a second call goes on.
        """
        ...

    def forget_unfinished(self, folder: LakeUri, older_than_hours: float) -> int:
        """Removes what writers have begun below a folder and never ended, and what the store keeps though no file shows
        it. Returns how many; 0 in a store that keeps no such thing."""
        ...

    def keeps_versions(self, folder: LakeUri) -> bool:
        """Whether the store keeps what is removed or replaced. False, too, if nobody may ask it."""
        ...

    def tables_around(self, folder: LakeUri) -> Iterator[LakeUri]:
        """The Delta tables whose folders contain this folder, then those inside it. If the folder is a link, what it
        leads to counts; links below it are not followed."""
        ...
