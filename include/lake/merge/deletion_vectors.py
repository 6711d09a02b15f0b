"""Reads and writes deletion vectors: which rows of a data file are gone (Delta protocol, "Deletion Vectors").

A vector is a Roaring bitmap of row numbers. Where it lies is said by its descriptor, in the `add` of its data file.
"""

from __future__ import annotations

import base64
import struct
import uuid
import zlib
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import BinaryIO

from pyroaring import BitMap64

from include.lake.damage import damaged, on_one_line
from include.lake.merge.unfit import UnfitError
from include.lake.stores import files_at
from include.lake.uri import LakeUri
from include.protocol.json_data import JsonMapping, JsonObject

NO_ROWS = BitMap64()
_MAGIC = struct.pack("<i", 1681511377)  # the portable format of 64-bit bitmaps follows
_VERSION = b"\x01"  # of a file of vectors
_Z85 = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85 = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"  # Python's own
_TO_Z85, _FROM_Z85 = bytes.maketrans(_B85, _Z85), bytes.maketrans(_Z85, _B85)
_AT_ONCE = 8  # files: most of the time passes while a store answers
UUID_CHARACTERS = 20  # of a file's UUID, at the end of its descriptor; what stands before it is a folder


def vector_id(vector: JsonMapping | None) -> str | None:
    """What tells two vectors of one data file apart (Delta protocol, "Deletion Vector Descriptor Schema")."""
    if not vector:
        return None
    offset = vector.get("offset")
    return f"{vector['storageType']}{vector['pathOrInlineDv']}" + ("" if offset is None else f"@{offset}")


def read_vector(table: LakeUri, vector: JsonMapping | None) -> BitMap64:
    """The numbers of the rows that are gone.

    Args:
        vector: the descriptor; None: no row is gone.

    Raises:
        UnfitError: it has a form that is not known here. TableDamaged: its file is missing, cut short or garbled.
    """
    [rows] = read_vectors(table, [vector])
    return rows


def read_vectors(table: LakeUri, vectors: Sequence[JsonMapping | None]) -> list[BitMap64]:
    """As `read_vector`, of several ones, in order. A file in which many of them lie is read once."""
    found = [NO_ROWS] * len(vectors)
    in_files: defaultdict[LakeUri, list[int]] = defaultdict(list)
    for place, vector in enumerate(vectors):
        if vector and vector["storageType"] == "i":
            found[place] = _rows(_inline(vector), vector)
        elif vector:
            in_files[vector_file(table, vector)].append(place)

    def read(path: LakeUri) -> None:
        try:
            with files_at(table).open(path) as file:
                for place in in_files[path]:
                    vector = vectors[place]
                    assert vector is not None, "it lies in a file"
                    found[place] = _rows(_from_file(table, path, file, vector), vector)
        except OSError as error:
            raise damaged(table, on_one_line(error)) from error

    with ThreadPoolExecutor(_AT_ONCE) as several:
        for _ in several.map(read, in_files):
            pass  # or what has failed is raised
    return found


def _rows(data: bytes, vector: JsonMapping) -> BitMap64:
    if data[: len(_MAGIC)] != _MAGIC:
        raise UnfitError("a deletion vector of another format")
    try:
        rows = BitMap64.deserialize(data[len(_MAGIC) :])
    except ValueError as error:
        raise UnfitError("a deletion vector of another format") from error
    if len(rows) != vector["cardinality"]:
        raise UnfitError("a deletion vector whose size is not what the log says")
    return rows


def write_vectors(table: LakeUri, vectors: Sequence[BitMap64]) -> tuple[list[JsonObject], int]:
    """Writes one file with all of them. Returns their descriptors, in order, and the file's size in bytes.

    Raises:
        OSError: the store refuses. Part of the file may be there; nothing names it.
    """
    name, parts, at = uuid.uuid4(), [_VERSION], len(_VERSION)
    descriptors: list[JsonObject] = []
    for rows in vectors:
        data = _MAGIC + rows.serialize()
        parts += [struct.pack(">i", len(data)), data, struct.pack(">I", zlib.crc32(data))]
        descriptors.append(
            {
                "storageType": "u",
                "pathOrInlineDv": base64.b85encode(name.bytes).translate(_TO_Z85).decode(),
                "offset": at,
                "sizeInBytes": len(data),
                "cardinality": len(rows),
            }
        )
        at += 4 + len(data) + 4
    files_at(table).create(table / _file_name(name), b"".join(parts))
    return descriptors, at


def vector_file(table: LakeUri, vector: JsonMapping) -> LakeUri:
    """The file that a vector lies in. Raises UnfitError: it is named by an absolute path."""
    if vector["storageType"] != "u":
        raise UnfitError("a deletion vector under an absolute path")
    text = vector["pathOrInlineDv"]
    folder, name = text[:-UUID_CHARACTERS], _file_name(uuid.UUID(bytes=_decoded(text[-UUID_CHARACTERS:])))
    return table.reached_by(f"{folder}/{name}") if folder else table / name


def _file_name(name: uuid.UUID) -> str:
    return f"deletion_vector_{name}.bin"


def _inline(vector: JsonMapping) -> bytes:
    return _decoded(vector["pathOrInlineDv"])[: vector["sizeInBytes"]]


def _from_file(table: LakeUri, path: LakeUri, file: BinaryIO, vector: JsonMapping) -> bytes:
    file.seek(vector.get("offset") or 0)
    head = file.read(4)
    size = struct.unpack(">i", head)[0] if len(head) == 4 else -1
    data, checksum = (file.read(size), file.read(4)) if size == vector["sizeInBytes"] else (b"", b"")
    if checksum != struct.pack(">I", zlib.crc32(data)):
        raise damaged(table, f"{path.name} is cut short or garbled")
    return data


def _decoded(text: str) -> bytes:
    try:
        return base64.b85decode(text.encode().translate(_FROM_Z85))
    except ValueError as error:
        raise UnfitError("a deletion vector that the log garbles") from error
