"""A sink of a route's table: it gets what has landed there, and nothing of a batch that has not."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from deltalake import DeltaTable

from include.audit.sinks import sink_findings
from include.control.older_files import are_needed
from include.delivery.creating import create, needed
from include.lake.merge.landing import Marker, land
from include.lake.merge.snapshot import Snapshot
from include.lake.table_log import TableLog
from include.lake.uri import LakeUri
from include.protocol.errors import TerminalError
from include.protocol.participants import Position
from tests.support import stream as streams
from tests.support.batches import batch, landed
from tests.support.delivered import deliverer
from tests.support.sink_servers import PostgresServer
from tests.support.stream import SCHEMA, Change, Stream, attempt, made, some, upsert
from tests.support.without_kafka import command

ROUTE = "lake://silver/odd"
TARGET = {"table": "lake://silver/p", "routes": [{"table": ROUTE, "when": "id % 2 = 1"}]}


@dataclass
class Routed:
    """A stream whose batches write two tables. All changes are for the route; the target gets others."""

    stream: Stream
    postgres: PostgresServer
    changes: list[list[Change]] = field(default_factory=list)  # of the route's table, that have landed

    @property
    def uri(self) -> LakeUri:
        return self.stream.coordinator.settings.lake / "silver/odd"

    @property
    def rows(self) -> list[tuple[int, int, str | None]]:
        return replace(self.stream, changes=self.changes).rows

    def write(self, number: int, changes: list[Change]) -> int:
        """What an attempt of a batch leaves in the route's table before its point. Returns the table's version."""
        of = batch(number)
        said = replace(landed(of).metadata, role="route", positions=None).dumps()
        return land(Snapshot.of(self.uri), upsert(changes), Marker(of.app_id, of.batch_id), said)

    def land(self, changes: list[Change] | None = None, version: int | None = None) -> None:
        """Lands the next batch. Args: changes: of the route's table. version: that has them already."""
        number = len(self.stream.changes)
        changes = some(Random(number), number) if changes is None else changes
        version = self.write(number, changes) if version is None else version
        stands = {ROUTE: Position(1, number, 0, version=version, identity=self.log.table_id)}
        others = some(Random(-number), number)
        attempt(self.stream.coordinator, number, others, "attempt", stands)
        self.stream.settle(others)
        self.changes.append(changes)

    @property
    def log(self) -> TableLog:
        log = TableLog.open(self.uri)
        assert log is not None
        return log


@pytest.fixture
def routed(tmp_path: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> Routed:
    return routed_in(tmp_path, postgres, monkeypatch, begin="start")


def routed_in(folder: Path, postgres: PostgresServer, patch: pytest.MonkeyPatch, **more: Any) -> Routed:
    postgres.clear()
    section = postgres.section(what="route", route=ROUTE, **more)
    stream = Stream.of(folder, patch, target=TARGET, app=section)
    create(stream.coordinator.pipeline, "app", needed(stream.coordinator.pipeline, "app"))
    found = Routed(stream, postgres)
    made(found.uri)
    return found


def test_it_has_what_the_routes_table_has_after_every_batch(routed: Routed) -> None:
    assert deliverer(routed.stream).deliver() is not None
    for _ in range(3):
        routed.land()
        assert deliverer(routed.stream).deliver() is not None
        assert routed.postgres.held() == routed.rows
    for _ in range(3):
        routed.land()
    assert "it lacks 3 commits" in command("sinks", "status", "p").stdout
    done = deliverer(routed.stream).deliver()
    assert done is not None and done.deliveries == 3
    assert routed.postgres.held() == routed.rows
    coordinator = routed.stream.coordinator
    assert [*sink_findings(coordinator.settings, coordinator.pipeline, "app")] == []
    routed.postgres.rows("DELETE FROM orders WHERE id = (SELECT min(id) FROM orders)")
    [finding] = sink_findings(coordinator.settings, coordinator.pipeline, "app")
    assert "lacks 1 rows" in finding.what


def test_what_an_attempt_has_left_whose_batch_has_not_landed_goes_nowhere(routed: Routed) -> None:
    routed.land()
    changes = some(Random(9), 1)
    version = routed.write(1, changes)
    assert deliverer(routed.stream).deliver() is not None
    assert routed.postgres.held() == routed.rows
    routed.land(changes, version)
    assert deliverer(routed.stream).deliver() is not None
    assert routed.postgres.held() == routed.rows


def test_a_batch_that_leaves_the_table_as_it_is_brings_nothing(routed: Routed) -> None:
    routed.land()
    for _ in range(2):
        routed.land([], routed.log.version)
    done = deliverer(routed.stream).deliver()
    assert done is not None and done.deliveries == 1
    routed.land()
    assert deliverer(routed.stream).deliver() is not None
    assert routed.postgres.held() == routed.rows


def test_what_others_change_there_comes_with_the_next_batch(routed: Routed) -> None:
    routed.land()
    assert deliverer(routed.stream).deliver() is not None
    gone = routed.rows[0][0]
    DeltaTable(str(routed.uri)).delete(f"id = {gone}")
    assert deliverer(routed.stream).deliver() is not None
    assert routed.postgres.held()[0][0] == gone
    routed.land([])
    assert deliverer(routed.stream).deliver() is not None
    assert routed.postgres.held() == [row for row in routed.rows if row[0] != gone]


def test_a_snapshot_is_of_what_has_landed(
    tmp_path: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    routed = routed_in(tmp_path, postgres, monkeypatch)
    for _ in range(2):
        routed.land()
    routed.write(2, some(Random(9), 2))
    assert deliverer(routed.stream).deliver() is not None
    assert routed.postgres.held() == routed.rows


def test_vacuum_waits_for_the_sink_in_that_table_alone(routed: Routed) -> None:
    routed.land()
    settings, pipeline = routed.stream.coordinator.settings, routed.stream.coordinator.pipeline
    assert are_needed(settings, pipeline, ROUTE) and not are_needed(settings, pipeline, "target")
    assert deliverer(routed.stream).deliver() is not None
    assert not are_needed(settings, pipeline, "target")


def test_a_table_in_its_place_asks_a_person(routed: Routed) -> None:
    routed.land()
    assert deliverer(routed.stream).deliver() is not None
    Path(str(routed.uri)).rename(Path(str(routed.uri)).with_name("away"))
    made(routed.uri, SCHEMA)
    routed.land()
    with pytest.raises(TerminalError, match="the table was made anew"):
        deliverer(routed.stream).deliver()
    assert command("sinks", "deliver", "p", "app", "--snapshot").returncode == 0
    assert routed.postgres.held() == replace(routed.stream, changes=routed.changes[1:]).rows


def test_a_batch_that_sinks_shall_not_get_is_left_out(routed: Routed, monkeypatch: pytest.MonkeyPatch) -> None:
    routed.land()
    assert deliverer(routed.stream).deliver() is not None
    before = routed.postgres.held()
    monkeypatch.setattr(streams, "batch", lambda number: replace(batch(number), deliver="skip"))
    routed.land()
    assert deliverer(routed.stream).deliver() is not None
    assert routed.postgres.held() == before != routed.rows
