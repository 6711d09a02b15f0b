"""A table that batches are merged into without Spark is what an oracle says, for every reader. Real Delta files."""

from __future__ import annotations

import json
import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from include.lake.merge.actions import Actions
from include.lake.merge.landing import Marker, MarkerIsThereError, OvertakenError, land
from include.lake.merge.snapshot import Snapshot
from include.lake.merge.unfit import UnfitError
from include.lake.merge.upsert import Upsert
from include.lake.posix.log_store import PosixLogStore
from include.lake.table_log import TableLog
from include.lake.uri import LakeUri
from tests.support import readers

ORDER = pa.struct([("seq", pa.int64()), ("_offset", pa.int64())])
LINEAGE = pa.struct([("change_order", ORDER), ("deleted", pa.bool_())])
PLACES = tuple((("_lakemark", "change_order", name),) for name in ("seq", "_offset"))  # what orders rows
STAMP = ("_lakemark", "change_order")  # what a row of another writer lacks
KEYS: dict[str, pa.DataType] = {
    "bigint": pa.int64(),
    "text": pa.string(),
    "double": pa.float64(),
    "decimal": pa.decimal128(20, 3),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "binary": pa.binary(),
}


def key_of(type_: pa.DataType, number: int) -> Any:
    """One of 600 values of a type."""
    number %= 600
    if pa.types.is_string(type_):
        return ("é" * 40 + f"{number}") if number % 3 else f"k{number}\U0010ffff"
    if pa.types.is_floating(type_):
        return {0: -0.0, 1: float("inf"), 2: 0.1}.get(number, number / 7)
    if pa.types.is_decimal(type_):
        return Decimal(number * 10**13 + number) / 1000
    if pa.types.is_date(type_):
        return date(1, 1, 1) + timedelta(days=number * 6_000)
    if pa.types.is_timestamp(type_):
        return datetime(1, 1, 1, tzinfo=UTC) + timedelta(days=number * 6_000, microseconds=number)
    return f"{number}".encode() if pa.types.is_binary(type_) else number - 300


def make_table(path: str, types: dict[str, pa.DataType], **properties: str) -> pa.Schema:
    schema = pa.schema(
        [*types.items(), ("name", pa.string()), ("nested", pa.list_(pa.int32())), ("_lakemark", LINEAGE)]
    )
    switched_on = {"delta.enableDeletionVectors": "true", **properties}
    DeltaTable.create(path, schema, configuration=switched_on, raise_if_key_not_exists=False)
    return schema


@pytest.mark.parametrize("names", [[name] for name in KEYS] + [["bigint", "text"]])
def test_random_batches_make_the_table_that_the_oracle_says(tmp_path: Path, names: list[str]) -> None:
    path, chance = str(tmp_path / "a table"), random.Random(" ".join(names))
    types = {name: KEYS[name] for name in names}
    schema = make_table(path, types)
    truth: dict[tuple[Any, ...], tuple[tuple[int, int], str]] = {}
    for number in range(25):
        changes: dict[tuple[Any, ...], tuple[int, int]] = {}
        for _ in range(chance.randint(1, 120)):
            key = tuple(key_of(type_, chance.randint(0, 599)) for type_ in types.values())
            changes[key] = (chance.randint(0, 9), chance.randint(0, 9))
        rows = [
            {
                **dict(zip(types, key, strict=True)),
                "name": f"{number} {order}",
                "nested": [number],
                "_lakemark": {"change_order": {"seq": order[0], "_offset": order[1]}, "deleted": False},
            }
            for key, order in changes.items()
        ]
        landed = upsert(pa.Table.from_pylist(rows, schema), *names)
        assert land(Snapshot.of(LakeUri(path)), landed, Marker("app", number), "{}") == DeltaTable(path).version()
        for key, order in changes.items():
            if key not in truth or order > truth[key][0]:
                truth[key] = order, f"{number} {order}"
        if number % 8 == 7:
            DeltaTable(path).create_checkpoint()
    expected = {key: name for key, (_, name) in truth.items()}
    assert by_deltalake(path, names) == expected
    assert by_duckdb(path, names) == expected
    assert DeltaTable(path).transaction_version("app") == 24


def upsert(rows: pa.Table, *keys: str, again: bool = False) -> Upsert:
    return Upsert(rows, keys, PLACES, STAMP, again=again)


def by_deltalake(path: str, keys: list[str]) -> dict[tuple[Any, ...], str | None]:
    return _as_dict(readers.by_deltalake(path), keys)


def by_duckdb(path: str, keys: list[str]) -> dict[tuple[Any, ...], str]:
    return _as_dict(readers.by_duckdb(path), keys)


def _as_dict(rows: list[dict[str, Any]], keys: list[str]) -> dict[tuple[Any, ...], str]:
    found = {tuple(row[key] for key in keys): row["name"] for row in rows}
    assert len(found) == len(rows), "no key has two rows"
    return found


def a_row(schema: pa.Schema, id_: int, seq: int) -> pa.Table:
    lineage = {"change_order": {"seq": seq, "_offset": 0}, "deleted": False}
    return pa.Table.from_pylist([{"bigint": id_, "name": f"{seq}", "_lakemark": lineage}], schema)


def test_nothing_lands_over_a_version_that_was_not_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another batch lands while this one is decided: it is decided again, on what is there then."""
    uri = LakeUri(str(tmp_path / "t"))
    schema = make_table(str(uri), {"bigint": pa.int64()})
    faster = [upsert(a_row(schema, 1, seq), "bigint") for seq in (2, 3)]

    def decided(mine: Upsert, table: Snapshot) -> Actions:
        found = over(mine, table)
        if faster and mine is slow:
            land(Snapshot.of(uri), faster.pop(0), Marker(f"other {len(faster)}", 0), "{}")
        return found

    slow, over = upsert(a_row(schema, 1, 1), "bigint"), Upsert.over
    monkeypatch.setattr(Upsert, "over", decided)
    assert land(Snapshot.of(uri), slow, Marker("app", 1), "{}") == 3
    assert by_deltalake(str(uri), ["bigint"]) == {(1,): "3"}
    assert DeltaTable(str(uri)).transaction_version("app") == 1


def test_a_marker_that_is_there_lands_nothing(tmp_path: Path) -> None:
    uri = LakeUri(str(tmp_path / "t"))
    schema = make_table(str(uri), {"bigint": pa.int64()})
    land(Snapshot.of(uri), upsert(a_row(schema, 1, 1), "bigint"), Marker("app", 5), "{}")
    for number in (4, 5):
        with pytest.raises(MarkerIsThereError):
            land(Snapshot.of(uri), upsert(a_row(schema, 1, 2), "bigint"), Marker("app", number), "{}")
    assert DeltaTable(str(uri)).version() == 1


def test_a_commit_follows_the_version_that_it_was_decided_on_or_fails(tmp_path: Path) -> None:
    uri = LakeUri(str(tmp_path / "t"))
    schema = make_table(str(uri), {"bigint": pa.int64()})
    seen = succession(uri)
    assert land(Snapshot.of(uri), upsert(a_row(schema, 1, 1), "bigint"), Marker("app", 0), "{}", seen) == 1
    with pytest.raises(OvertakenError):
        land(Snapshot.of(uri), upsert(a_row(schema, 1, 2), "bigint"), Marker("app", 1), "{}", seen)
    assert DeltaTable(str(uri)).version() == 1


def succession(uri: LakeUri) -> str:
    log = TableLog.open(uri)
    assert log is not None
    return log.succession


def test_a_lost_answer_is_looked_for_in_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = LakeUri(str(tmp_path / "t"))
    schema = make_table(str(uri), {"bigint": pa.int64()})
    create = PosixLogStore.create

    def lost(self: PosixLogStore, version: int, content: bytes, succeeds: str | None = None) -> bool:
        create(self, version, content, succeeds)
        raise OSError("the answer is lost")

    monkeypatch.setattr(PosixLogStore, "create", lost)
    assert land(Snapshot.of(uri), upsert(a_row(schema, 1, 1), "bigint"), Marker("app", 0), "{}") == 1
    monkeypatch.setattr(PosixLogStore, "create", _refuses)
    with pytest.raises(OSError, match="no answer"):
        land(Snapshot.of(uri), upsert(a_row(schema, 1, 2), "bigint"), Marker("app", 1), "{}")
    assert by_deltalake(str(uri), ["bigint"]) == {(1,): "1"}


def _refuses(self: PosixLogStore, version: int, content: bytes, succeeds: str | None = None) -> bool:
    raise OSError("no answer")


def test_an_equal_order_counts_only_where_it_is_asked_for(tmp_path: Path) -> None:
    uri = LakeUri(str(tmp_path / "t"))
    schema = make_table(str(uri), {"bigint": pa.int64()})
    land(Snapshot.of(uri), upsert(a_row(schema, 1, 1), "bigint"), Marker("app", 0), "{}")
    table = Snapshot.of(uri)
    assert upsert(a_row(schema, 1, 1), "bigint", again=True).over(table).metrics["numTargetRowsUpdated"] == 1
    assert upsert(a_row(schema, 1, 1), "bigint").over(table).metrics["numTargetRowsUpdated"] == 0


@pytest.mark.parametrize(
    ("properties", "why"),
    [
        ({"delta.enableDeletionVectors": "false"}, "deletion vectors"),
        ({"delta.appendOnly": "true"}, "delta.appendOnly"),
        ({"delta.enableChangeDataFeed": "true"}, "change data feed|changeDataFeed"),
    ],
)
def test_what_is_not_known_to_be_safe_is_left_to_spark(tmp_path: Path, properties: dict[str, str], why: str) -> None:
    path = str(tmp_path / "t")
    schema = make_table(path, {"bigint": pa.int64()}, **properties)
    with pytest.raises(UnfitError, match=why):
        land(Snapshot.of(LakeUri(path)), upsert(a_row(schema, 1, 1), "bigint"), Marker("app", 0), "{}")


def test_columns_that_the_changes_lack_keep_their_values(tmp_path: Path) -> None:
    """A pipeline file may leave a column out that the table has."""
    uri = LakeUri(str(tmp_path / "t"))
    schema = make_table(str(uri), {"bigint": pa.int64()})
    land(Snapshot.of(uri), upsert(pa.concat_tables([a_row(schema, n, 1) for n in (1, 2)]), "bigint"), None, "{}")
    changes = pa.concat_tables([a_row(schema, n, 2) for n in (2, 3)]).drop_columns(["name", "nested"])
    land(Snapshot.of(uri), upsert(changes, "bigint"), None, "{}")
    assert by_deltalake(str(uri), ["bigint"]) == {(1,): "1", (2,): "1", (3,): None}


def test_what_no_library_takes_is_left_to_spark(tmp_path: Path) -> None:
    """A text that is no UTF-8: no content of a record may fail an attempt."""
    uri = LakeUri(str(tmp_path / "t"))
    schema = make_table(str(uri), {"text": pa.string()})
    lineage = {"change_order": {"seq": 1, "_offset": 0}, "deleted": False}
    for bad in (b"\xff\xfe", b"a"):
        row = pa.Table.from_pylist([{"text": "a", "name": "b", "_lakemark": lineage}], schema)
        names = pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff"], pa.binary()).buffers())
        texts = pa.Array.from_buffers(pa.string(), 1, pa.array([bad], pa.binary()).buffers())
        row = row.set_column(0, "text", texts).set_column(1, "name", names)
        with pytest.raises(UnfitError, match="rows that"):
            land(Snapshot.of(uri), upsert(row, "text"), None, "{}")
    assert DeltaTable(str(uri)).version() == 0


def test_a_file_that_has_no_statistics_gets_the_number_of_its_rows(tmp_path: Path) -> None:
    """Else no reader may use its deletion vector (Delta protocol, "Deletion Vectors")."""
    uri = LakeUri(str(tmp_path / "t"))
    schema = make_table(str(uri), {"bigint": pa.int64()})
    land(Snapshot.of(uri), upsert(pa.concat_tables([a_row(schema, n, 1) for n in (1, 2)]), "bigint"), None, "{}")
    table = Snapshot.of(uri)
    [key] = table.files
    del table.files[key]["stats"]
    land(table, upsert(a_row(schema, 1, 2), "bigint"), None, "{}")
    stats = [json.loads(file["stats"]) for file in Snapshot.of(uri).files.values() if "deletionVector" in file]
    assert stats == [{"numRecords": 2, "tightBounds": False}]
    assert by_deltalake(str(uri), ["bigint"]) == {(1,): "2", (2,): "1"}


@pytest.mark.parametrize("hint", ["", "{", None])
def test_a_hint_that_another_writer_is_just_writing_stops_nothing(tmp_path: Path, hint: str | None) -> None:
    """Spark replaces `_last_checkpoint` by writing it anew, so whoever reads it then finds nothing, or half of it."""
    uri = LakeUri(str(tmp_path / "t"))
    schema = make_table(str(uri), {"bigint": pa.int64()})
    for seq in range(12):
        land(Snapshot.of(uri), upsert(a_row(schema, 1, seq), "bigint"), None, "{}")
        if seq == 9:
            DeltaTable(str(uri)).create_checkpoint()
    hints = tmp_path / "t" / "_delta_log" / "_last_checkpoint"
    hints.unlink() if hint is None else hints.write_text(hint)
    table = Snapshot.of(uri)
    assert (table.version, table.checkpoint) == (12, None if hint is None else 10)
    land(table, upsert(a_row(schema, 1, 99), "bigint"), None, "{}")
    assert by_deltalake(str(uri), ["bigint"]) == {(1,): "99"}
