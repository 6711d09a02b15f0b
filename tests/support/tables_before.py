"""Tables before the point, and what batches and fences have left in them, written by hand: no Spark, no Kafka."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from include.control import coordinator as planning
from include.control import settling
from include.control.coordinator import Coordinator
from include.control.generation_change import GenerationChange
from include.lake.uri import LakeUri
from include.participants.catalog import Catalog
from include.protocol.batch import Batch
from include.protocol.commit_metadata import Role
from include.protocol.generations import Origin, restart
from include.protocol.ledger_events import BatchPlanned, Event, GenerationStarted, TopicsStarted
from include.protocol.participants import Position, Positions, Stamp
from include.protocol.planning import SourceExtent
from tests.support.batches import batch, committed, landed
from tests.support.hand_made import commit, coordinator_of, make_target

TABLES = {"table": "lake://silver/p", "history_table": "lake://silver/p_history"}


def with_tables(folder: Path, **sections: object) -> Coordinator:
    """The coordinator of a pipeline with an archive, a quarantine and a history before its target."""
    source = {"bootstrap_servers": "k:1", "topics": ["t"], "schema": "id BIGINT, seq BIGINT"}
    change = {"keys": ["id"], "order_by": ["seq"]}
    given = {"source": source, "change": change, "target": TABLES, "archive": "lake://bronze/p"}
    return coordinator_of(folder, **{**given, **sections})


def uri_before(coordinator: Coordinator, name: str) -> LakeUri:
    [uri] = [p.uri(coordinator.settings) for p in Catalog.of(coordinator.pipeline).before if p.name == name]
    return uri


def folder_before(coordinator: Coordinator, name: str) -> Path:
    return Path(str(uri_before(coordinator, name)))


def make_before(coordinator: Coordinator, name: str) -> Path:
    """A table before the point, without rows; returns where it lies."""
    schema = pa.schema([("generation", pa.int32()), ("batch_id", pa.int64())])
    found = folder_before(coordinator, name)
    DeltaTable.create(str(found), schema)
    return found


def land_before(table: Path, version: int, of: Batch, role: Role = "history", revision: int = 0) -> Position:
    """The commit of a batch in such a table; returns where the table stands then."""
    made = replace(landed(of).metadata, role=role, digest="d", revision=revision or None)
    number = Stamp(of.batch_id, revision).number if of.form > 1 else of.batch_id
    commit(table, version, made.dumps(), {of.app_id: number})
    return Position(*of.key, revision, "d", version, str(DeltaTable(table).metadata().id))


def land_at_the_point(target: Path, version: int, of: Batch, positions: Positions | None = None) -> None:
    """The commit of a batch in the target."""
    made = replace(landed(of).metadata, positions=positions)
    commit(target, version, made.dumps(), {of.app_id: of.batch_id})


def with_one_batch(folder: Path) -> Coordinator:
    """A pipeline of which batch 0 has landed, also in the history."""
    found = with_tables(folder)
    positions = {"history": land_before(make_before(found, "history"), 1, batch(0))}
    land_at_the_point(make_target(found), 1, batch(0), positions)
    found.ledger.append(lambda state: [begun_with(batch(0)), *events_of(batch(0), positions=positions)])
    return found


def with_batches(folder: Path, batches: int) -> Coordinator:
    """A pipeline of which batches have landed in the history, in versions 1, 2, ..., and in the target."""
    found = with_tables(folder)
    history, target = make_before(found, "history"), make_target(found)
    for n in range(batches):
        positions = {"history": land_before(history, n + 1, batch(n))}
        land_at_the_point(target, n + 1, batch(n), positions)
    found.ledger.append(
        lambda state: [begun_with(batch(0)), *events_of(*map(batch, range(batches)), positions=positions)]
    )
    return found


def events_of(*batches: Batch, positions: Positions | None = None) -> list[Event]:
    """A ledger in which these batches have landed; the last one has left the tables at these positions."""
    found: list[Event] = []
    for of in batches:
        found += [BatchPlanned(of), replace(committed(of), positions=positions if of is batches[-1] else None)]
    return found


def begun_with(of: Batch, offset: int = 0) -> TopicsStarted:
    """The start of the batch's topic."""
    [found] = of.ranges
    starts = {found.topic_partition: offset}
    return TopicsStarted(of.generation, of.batch_id, starts, of.topic_ids, of.cluster_id)


def ask(patch: pytest.MonkeyPatch, source: SourceExtent) -> None:
    """Every look at Kafka finds this."""
    for module in (planning, settling):
        patch.setattr(module, "source_extent", lambda declared: source)


def reset(coordinator: Coordinator, origin: Origin = "committed") -> GenerationStarted:
    """`lakemark reset`, as a whole."""

    def decide(state, source) -> GenerationStarted:
        return restart("p", state, source, origin=origin, kafka_order_decides=False, reason="test", started_by="test")

    return GenerationChange(coordinator, lambda: make_target(coordinator)).begin(decide)[0]
