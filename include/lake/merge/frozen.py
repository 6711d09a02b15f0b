"""Freezes versions of tables. Each becomes a table of its own in another folder, whose log nobody cleans up.

It names the same data files, from its own place: a relative path, with steps up (Delta protocol, "Add File and Remove
File"), so a lake that is copied to another place takes it along. Or it has copies of them in its own folder, under the
same names. Every Delta reader can read it, for as long as those files are there.
"""

from __future__ import annotations

import json
import posixpath
import time
from collections.abc import Sequence
from dataclasses import replace
from urllib.parse import quote, unquote, urlsplit

from include.lake.log_store import LOG
from include.lake.merge.deletion_vectors import UUID_CHARACTERS, vector_file
from include.lake.merge.snapshot import Snapshot, file_key
from include.lake.merge.unfit import UnfitError
from include.lake.stores import files_at, log_store_of
from include.lake.uri import LakeUri
from include.protocol.json_data import JsonObject

_OPERATION = "LAKEMARK FREEZE"


def freeze(past: Snapshot, folder: LakeUri, is_copy: bool = False) -> None:
    """Makes the table, unless it is there.

    Args:
        past: the version. folder: where the new table will lie; in the same store. is_copy: it has files of its own,
            under the same names: they are there.

    Raises:
        UnfitError: the version names files by absolute paths. OSError: the store refuses.
    """
    files = past.files.values() if is_copy else [moved(file, past.uri, folder) for file in past.files.values()]
    markers = [{"txn": {"appId": name, "version": number}} for name, number in past.markers.items()]
    began(folder, past.protocol, past.metadata, [*markers, *({"add": file} for file in files)], operation=_OPERATION)


def began(
    folder: LakeUri,
    protocol: JsonObject,
    metadata: JsonObject,
    actions: Sequence[JsonObject],
    operation: str,
    said: str | None = None,
) -> bool:
    """Makes a table by its first commit. False if there is one, which stays as it is.

    Args:
        protocol, metadata, actions: see the Delta protocol. said: the commit's `userMetadata`; None: it has none.

    Raises:
        OSError: the store refuses.
    """
    info = {
        "timestamp": time.time_ns() // 1_000_000,
        "operation": operation,
        "operationParameters": {},
        "engineInfo": "lakemark",
        "isBlindAppend": True,
        **({} if said is None else {"userMetadata": said}),
    }
    lines: list[JsonObject] = [{"commitInfo": info}, {"protocol": protocol}, {"metaData": metadata}, *actions]
    files_at(folder).make_folder(folder / LOG)
    content = "".join(f"{json.dumps(line, separators=(',', ':'), ensure_ascii=False)}\n" for line in lines)
    return log_store_of(folder).create(0, content.encode())


def thawed(folder: LakeUri, uri: LakeUri) -> Snapshot:
    """A frozen version, as a version of the table that it came from.

    Args:
        folder: of the frozen one. uri: where that table lies now.

    Raises:
        NoLogError: there is no such table. TableDamaged: see `Snapshot.of`.
    """
    frozen = Snapshot.of(folder)
    files = [moved(file, folder, uri) if _is_elsewhere(file) else file for file in frozen.files.values()]
    return replace(frozen, uri=uri, files={file_key(file): file for file in files}, stamp=None)


def names_of(table: Snapshot) -> dict[str, int]:
    """All data files of a version and the files of its deletion vectors, relative to its table; with their sizes in
    bytes. Of a file of vectors only what this version needs counts.

    Raises:
        UnfitError: one is named by an absolute path.
    """
    found: dict[str, int] = {}
    for file in table.files.values():
        found[unquote(file["path"])] = file["size"]
        vector = file.get("deletionVector")
        if vector and vector["storageType"] != "i":
            name = str(vector_file(table.uri, vector)).removeprefix(f"{table.uri}/")
            found[name] = found.get(name, 0) + vector["sizeInBytes"]
    return found


def moved(file: JsonObject, old: LakeUri, new: LakeUri) -> JsonObject:
    """The `add` of a file, as a table in another folder names it.

    Args:
        old: the folder of the table that names it now. new: that of the other one, in the same store.

    Raises:
        UnfitError: it is named by an absolute path.
    """
    path, vector = file["path"], file.get("deletionVector")
    if path.startswith("/") or urlsplit(path).scheme:
        raise UnfitError("files under absolute paths")
    found = {**file, "path": _seen_from(quote(_path(new)), f"{quote(_path(old))}/{path}")}
    if vector and vector["storageType"] == "u":
        text = vector["pathOrInlineDv"]
        folder = _seen_from(_path(new), f"{_path(old)}/{text[:-UUID_CHARACTERS]}")
        found["deletionVector"] = {**vector, "pathOrInlineDv": f"{folder}{text[-UUID_CHARACTERS:]}"}
    return found


def _is_elsewhere(file: JsonObject) -> bool:
    """Whether a frozen version names a file of the table that it came from. A copy has files of its own."""
    return str(file["path"]).startswith("../")


def _seen_from(folder: str, path: str) -> str:
    """The relative path; empty: it is the folder itself."""
    found = posixpath.relpath(path, folder)
    return "" if found == "." else found


def _path(uri: LakeUri) -> str:
    """It as an absolute path; of a store, with the bucket."""
    return f"/{str(uri).partition('://')[2]}" if "://" in str(uri) else str(uri)
