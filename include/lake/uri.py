"""Where something in the lake lies."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from include.protocol.errors import TerminalError

_BUCKET = r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]"
_PREFIX = r"(/(?!\.{1,2}(/|$))[A-Za-z0-9_.=-]+)*"  # else three libraries would have to agree on how to encode it
_OF_S3 = ("s3", "s3a", "s3n")  # what different programs call the same store


@dataclass(frozen=True, order=True)
class LakeUri:
    """The place of a table, a folder or a file in the lake: a path of a POSIX file system, or `s3://bucket/key`.

    It is neither a `str` nor an `os.PathLike`, so `open` and `Path` refuse it: only `include.lake` and Spark open what
    it names. Spark, deltalake and people get `str(uri)`.
    """

    text: str

    def __truediv__(self, name: str) -> LakeUri:
        """The place below this one with a relative name (`silver/orders`)."""
        return LakeUri(f"{self.text.rstrip('/')}/{name}" if self.text else name)

    def resolve(self, reference: str) -> LakeUri:
        """The place that a reference in this table's log names. It is relative to the table or, after a shallow clone,
        absolute; and it is percent-encoded (Delta protocol, "Add File and Remove File")."""
        scheme, host, path, *_ = urlsplit(reference)
        if scheme in _OF_S3:
            return LakeUri(f"s3://{host}{unquote(path)}")
        if scheme not in ("", "file"):
            return LakeUri(f"{scheme}://{host}{unquote(path)}")
        return LakeUri(unquote(path)) if path.startswith("/") else self.reached_by(unquote(path))

    def reached_by(self, way: str) -> LakeUri:
        """The place that a relative path leads to, which may have steps up (`../orders`)."""
        scheme, found, path = (self / way).text.rpartition("://")
        return LakeUri(f"{scheme}{found}{posixpath.normpath(path)}")

    def __str__(self) -> str:
        return self.text

    @property
    def scheme(self) -> str:
        """The kind of store that it lies in; `file` for a bare path."""
        scheme, found, _ = self.text.partition("://")
        return scheme if found else "file"

    @property
    def qualified(self) -> str:
        """It with its scheme, for programs whose default is another store."""
        return self.text if "://" in self.text else f"file://{self.text}"

    @property
    def name(self) -> str:
        return self.text.rstrip("/").rpartition("/")[2]

    @property
    def parent(self) -> LakeUri:
        """The place above; the bucket's, and the root's, is itself."""
        scheme, separator, path = self.text.rpartition("://")
        above, root, _ = path.rstrip("/").rpartition("/")
        return LakeUri(f"{scheme}{separator}{above or (path if scheme else root)}")

    def beside(self, name: str) -> LakeUri:
        """The place in the same folder with another name."""
        return self.parent / name


def lake_at(text: str) -> LakeUri:
    """The lake that a person names. Raises TerminalError: there cannot be one."""
    plain = text.rstrip("/") or text[:1]
    if re.fullmatch(f"s3://{_BUCKET}{_PREFIX}", plain):
        return LakeUri(plain)
    if plain.startswith("/"):
        return LakeUri(posixpath.normpath(plain))
    shown = re.sub(r"//[^/]*@", "//...@", text)  # somebody may have put a login there
    raise TerminalError(
        what="this is no place for a lake",
        where=shown,
        expected="an absolute path; or s3://BUCKET/PREFIX, with a prefix of letters, digits and _ . = - between single "
        "slashes, and without the steps . and ..",
        found=shown,
        action="set LAKEMARK_LAKE (or name the place for the copy) as it is expected here",
    )
