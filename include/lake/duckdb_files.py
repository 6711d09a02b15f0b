"""A DuckDB in memory that reads the data files of a lake, wherever they lie.

DuckDB opens local files itself. For other stores it has extensions that it fetches while it runs, with credentials of
their own; here it asks the store's own files instead, by ranges.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from typing import Any, BinaryIO, cast

import duckdb
from fsspec import AbstractFileSystem

from include.lake.sql import as_pattern
from include.lake.stores import files_at
from include.lake.uri import LakeUri

_THREADS, _THREADS_THAT_WAIT = 2, 8  # of one process; those of other stores mostly wait for an answer
_NEVER = datetime(2000, 1, 1, tzinfo=UTC)


@contextmanager
def database_over(files: Mapping[LakeUri, int]) -> Iterator[tuple[duckdb.DuckDBPyConnection, list[str]]]:
    """A database, and what it calls these files: the names for `read_parquet`, which its column `filename` has, too.

    Args:
        files: of one store, with their sizes in bytes.

    Raises:
        OSError: the store does not answer, or refuses, or a file is not there. (Of local files, DuckDB raises its own
            IOException.)
    """
    scheme = next(iter(files)).scheme if files else "file"
    is_local = scheme == "file"
    with duckdb.connect(config={"threads": _THREADS if is_local else _THREADS_THAT_WAIT}) as database:
        database.execute("SET TimeZone = 'UTC'")
        if is_local:
            yield database, [as_pattern(str(uri)) for uri in files]
            return
        store = _StoreFiles(scheme, files)
        database.register_filesystem(store)
        try:
            yield database, [str(uri) for uri in files]
        except duckdb.Error as error:
            if store.failures:
                raise store.failures[0] from error
            raise


class _StoreFiles(AbstractFileSystem):  # type: ignore[misc]  # it has no types
    """What DuckDB asks of a store. Data files never change."""

    cachable = False

    def __init__(self, scheme: str, sizes: Mapping[LakeUri, int]) -> None:
        self.protocol = scheme
        super().__init__()
        self._sizes = {str(uri): size for uri, size in sizes.items()}
        self.failures: list[OSError] = []  # DuckDB tells only their texts

    def _name(self, path: str) -> str:
        return path if path in self._sizes else f"{self.protocol}://{path}"

    def glob(self, path: str, **more: object) -> list[str]:
        return [self._name(path)]  # a name is no pattern

    def exists(self, path: str, **more: object) -> bool:
        return self._name(path) in self._sizes

    def info(self, path: str, **more: object) -> dict[str, object]:
        name = self._name(path)
        return {"name": name, "size": self._sizes[name], "type": "file"}

    def modified(self, path: str) -> datetime:
        return _NEVER

    def _open(self, path: str, mode: str = "rb", **more: object) -> BinaryIO:
        name = self._name(path)
        with self._kept():
            file = files_at(LakeUri(name)).open(LakeUri(name), self._sizes[name])
            return cast(BinaryIO, _Watched(file, self._kept))

    @contextmanager
    def _kept(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.failures.append(error)
            raise


class _Watched:
    """A file whose errors somebody keeps."""

    def __init__(self, file: BinaryIO, kept: Callable[[], AbstractContextManager[None]]) -> None:
        self._file, self._kept = file, kept

    def read(self, size: int = -1) -> bytes:
        with self._kept():
            return self._file.read(size)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)
