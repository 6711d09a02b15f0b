"""Deletion vectors: what was written is read, and what is damaged is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap64

from include.lake.merge.deletion_vectors import read_vector, vector_file, vector_id, write_vectors
from include.lake.merge.unfit import UnfitError
from include.lake.posix.path import posix_path
from include.lake.uri import LakeUri
from include.protocol.errors import TableDamaged

ROWS = st.sets(st.integers(0, 2**34) | st.integers(0, 200), max_size=200)


@settings(deadline=None)
@given(st.lists(ROWS, min_size=1, max_size=5))
def test_what_was_written_is_read(tmp_path_factory: pytest.TempPathFactory, wanted: list[set[int]]) -> None:
    table = LakeUri(str(tmp_path_factory.mktemp("a table")))
    vectors, size = write_vectors(table, [BitMap64(rows) for rows in wanted])
    assert [set(read_vector(table, vector)) for vector in vectors] == wanted
    assert len({vector_id(vector) for vector in vectors}) == len(wanted)
    [file] = {vector_file(table, vector) for vector in vectors}
    assert posix_path(file).stat().st_size == size


def test_a_descriptor_names_a_file_as_the_protocols_own_example_does() -> None:
    """Delta protocol, "Deletion Vector Descriptor Schema"."""
    stored = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 4}
    file = "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
    assert vector_file(LakeUri("/t"), stored) == LakeUri(f"/t/{file}")
    assert vector_id(stored) == "uab^-aqEH.-t@S}K{vb[*k^@4"


def test_the_protocols_example_of_a_vector_in_the_log_has_the_older_format_and_is_left_to_spark() -> None:
    text = "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"
    with pytest.raises(UnfitError, match="another format"):
        read_vector(LakeUri("/none"), {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": 40, "cardinality": 6})


@pytest.mark.parametrize("place", [0, 5, 9, 30, -1])
def test_what_is_damaged_is_refused(tmp_path: Path, place: int) -> None:
    table = LakeUri(str(tmp_path))
    [vector], _ = write_vectors(table, [BitMap64([3, 4, 70_000, 2**33])])
    file = posix_path(vector_file(table, vector))
    content = bytearray(file.read_bytes())
    content[place] ^= 0xFF
    file.write_bytes(content)
    if place == 0:  # the version of the file; the vectors are whole
        assert 3 in read_vector(table, vector)
        return
    with pytest.raises(TableDamaged, match=f"{file.name} is cut short or garbled"):
        read_vector(table, vector)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"cardinality": 5}, "not what the log says"),
        ({"storageType": "p", "pathOrInlineDv": "file:///x.bin"}, "an absolute path"),
        ({"storageType": "i", "pathOrInlineDv": "not z85 \\"}, "the log garbles"),
        ({"storageType": "i", "pathOrInlineDv": "00000"}, "another format"),
    ],
)
def test_what_is_not_known_is_refused(tmp_path: Path, change: dict[str, object], why: str) -> None:
    table = LakeUri(str(tmp_path))
    [vector], _ = write_vectors(table, [BitMap64([1])])
    with pytest.raises(UnfitError, match=why):
        read_vector(table, {**vector, **change})
