"""Where something in the lake lies."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class LakeUri:
    """The place of a table, a folder or a file in the lake: a path of a POSIX file system.

    It is neither a `str` nor an `os.PathLike`, so `open` and `Path` refuse it: only `include.lake` and Spark open what
    it names. Spark, deltalake and people get `str(uri)`.
    """

    text: str

    def __truediv__(self, name: str) -> LakeUri:
        """The place below this one with a relative name (`silver/orders`)."""
        return LakeUri(f"{self.text.rstrip('/')}/{name}")

    def __str__(self) -> str:
        return self.text

    @property
    def scheme(self) -> str:
        """The kind of store that it lies in; `file` for a bare path."""
        scheme, found, _ = self.text.partition("://")
        return scheme if found else "file"

    @property
    def name(self) -> str:
        return self.text.rstrip("/").rpartition("/")[2]

    @property
    def parent(self) -> LakeUri:
        return LakeUri(self.text.rstrip("/").rpartition("/")[0])

    def beside(self, name: str) -> LakeUri:
        """The place in the same folder with another name."""
        return self.parent / name
