"""A pipeline with sinks whose batches land without Spark and without Kafka: real Delta files, a real ledger, commands.

It remembers the changes itself: what the table, and so every sink, must hold is computed from them alone.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from include.control.coordinator import Coordinator
from include.control.two_phase import TwoPhase
from include.lake.merge.append import Append
from include.lake.merge.landing import Marker, MarkerIsThereError, land
from include.lake.merge.snapshot import Snapshot
from include.lake.merge.upsert import Upsert
from include.lake.stores import files_at
from include.lake.table_log import TableLog
from include.lake.uri import LakeUri
from include.participants.outbox import outbox as outbox_of
from include.pipeline_file import find_pipeline
from include.protocol.batch import Batch
from include.protocol.ledger_events import BatchPlanned, Event
from include.protocol.participants import Position
from include.settings import Settings
from tests.support.batches import batch, committed, landed
from tests.support.hand_made import coordinator_of, known_to_commands
from tests.support.tables_before import begun_with

_KEYS = 60
_LINEAGE = pa.struct([("deleted", pa.bool_()), ("offset", pa.int64())])
SCHEMA = pa.schema([("id", pa.int64()), ("seq", pa.int64()), ("name", pa.string()), ("_lakemark", _LINEAGE)])
_PLACE = [("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()), ("deleted", pa.bool_())]
_BATCH = [("generation", pa.int32()), ("batch_id", pa.int64())]
ACCEPTED = pa.schema([*list(SCHEMA)[:3], pa.field("_lakemark", pa.struct([*_PLACE, *_BATCH]))])  # of `what: changes`
DDL = "id BIGINT, seq BIGINT, name STRING"


@dataclass(frozen=True)
class Change:
    id: int
    seq: int
    name: str | None
    deletes: bool = False


@dataclass
class Stream:
    """The pipeline `p`, and all changes that have landed in it."""

    coordinator: Coordinator
    changes: list[list[Change]] = field(default_factory=list)  # of each batch

    @classmethod
    def of(
        cls,
        folder: Path,
        patch: pytest.MonkeyPatch,
        ddl: str = DDL,
        schema: pa.Schema = SCHEMA,
        target: dict[str, Any] | None = None,
        **sinks: dict[str, Any],
    ) -> Stream:
        """A pipeline without batches, which commands know, too. Args: ddl, schema: of its rows. target, sinks: sections
        of its file."""
        source = {"bootstrap_servers": "k:1", "topics": ["t"], "schema": ddl}
        change = {"keys": ["id"], "order_by": ["seq"]}
        sections = {
            "source": source,
            "change": change,
            "sinks": sinks,
            **({} if target is None else {"target": target}),
        }
        coordinator = known_to_commands(coordinator_of(folder, **sections), folder, patch)
        made(coordinator.tables.target, schema)
        coordinator.ledger.append(lambda state: [begun_with(batch(0))])
        return cls(coordinator)

    @property
    def target(self) -> str:
        return str(self.coordinator.tables.target)

    @property
    def rows(self) -> list[tuple[int, int, str | None]]:
        """What readers must see, in the order of keys."""
        return self.rows_with([])

    def rows_with(self, more: list[Change]) -> list[tuple[int, int, str | None]]:
        """What they must see once a further batch has landed. Args: more: its changes."""
        newest: dict[int, Change] = {}
        for change in (change for changes in (*self.changes, more) for change in changes):
            if change.id not in newest or change.seq >= newest[change.id].seq:
                newest[change.id] = change
        return sorted((c.id, c.seq, c.name) for c in newest.values() if not c.deletes)

    def land(self, changes: list[Change] | None = None, dice: Random | None = None) -> Batch:
        """Lands the next batch. Args: changes: one per key; None: some, from the dice."""
        number = len(self.changes)
        changes = changes if changes is not None else self.coming() if dice is None else some(dice, number)
        attempt(self.coordinator, number, changes, "attempt")
        return self.settle(changes)

    def killed_at(self, point: str, attempt_id: str = "first") -> list[Change]:
        """The next batch's attempt is killed there. Returns the changes that it would have brought."""
        changes = self.coming()
        killed = process(len(self.changes), changes, attempt_id, f"{point}=kill")
        told = killed.communicate(timeout=60)
        assert killed.returncode == -signal.SIGKILL, told
        return changes

    def coming(self) -> list[Change]:
        """Changes of the next batch."""
        return some(Random(len(self.changes)), len(self.changes))

    def findings(self, sink: str = "app") -> list[str]:
        """What an audit finds at a sink."""
        from include.audit.sinks import sink_findings  # the processes of attempts, which are many, need no client

        found = sink_findings(self.coordinator.settings, self.coordinator.pipeline, sink)
        return [finding.what for finding in found]

    def settle(self, changes: list[Change]) -> Batch:
        """Records that the next batch has landed. Args: changes: that it has brought."""
        of = batch(len(self.changes))
        log = TableLog.open(self.coordinator.tables.target)
        assert log is not None
        found = log.landed(of)
        assert found is not None, "it has landed"
        at = datetime.now(UTC).isoformat()
        told = {"table_version": found.table_version, "table_id": log.table_id, "committed_at": at, "positions": {}}
        events: list[Event] = [BatchPlanned(of), replace(committed(of), **told)]
        self.coordinator.ledger.append(lambda state: events)
        self.changes.append(changes)
        return of


def made(uri: LakeUri, schema: pa.Schema = SCHEMA) -> LakeUri:
    """A new table there."""
    files_at(uri).make_folder(uri)
    DeltaTable.create(str(uri), schema, configuration={"delta.enableDeletionVectors": "true"})
    return uri


def attempt(
    coordinator: Coordinator,
    number: int,
    changes: list[Change],
    attempt_id: str,
    stands: dict[str, Position] | None = None,
) -> None:
    """Lands a batch, unless it has landed, with the sinks that move with it: as an attempt does without Spark. Args:
    stands: where it has left the tables before the point."""
    of, uri = batch(number), coordinator.tables.target
    together = TwoPhase(coordinator.settings, coordinator.pipeline, uri, of, attempt_id, by="test", say=print)
    together.get_ready()
    said = replace(landed(of).metadata, positions=stands or {}, attempt_id=attempt_id).dumps()
    for outbox in outbox_of(coordinator.pipeline):
        version = _accept(outbox.uri(coordinator.settings), changes, of, said)
        stands = {outbox.name: Position(*of.key, 0, version=version)}
        said = replace(landed(of).metadata, positions=stands, attempt_id=attempt_id).dumps()
    with suppress(MarkerIsThereError):
        land(Snapshot.of(uri), upsert(changes), Marker(of.app_id, of.batch_id), said, create=together.create)


def upsert(changes: list[Change]) -> Upsert:
    """What a batch's changes do to a table."""
    newest = {c.id: c for c in sorted(changes, key=lambda c: c.seq)}
    rows = [
        {"id": c.id, "seq": c.seq, "name": c.name, "_lakemark": {"deleted": c.deletes, "offset": n}}
        for n, c in enumerate(newest.values())
    ]
    return Upsert(pa.Table.from_pylist(rows, SCHEMA), ("id",), ((("seq",),),), ("_lakemark", "offset"), again=True)


def some(dice: Random, batch_id: int, number: int = 20) -> list[Change]:
    """Changes of a batch: new keys, newer and late changes, deletes."""
    found = []
    for place, id_ in enumerate(dice.sample(range(_KEYS), number)):
        seq = 100 * batch_id + place - (150 if dice.random() < 0.2 else 0)
        found.append(Change(id_, seq, f"n{dice.randrange(9)}", dice.random() < 0.2))
    return found


def _accept(uri: LakeUri, changes: list[Change], of: Batch, said: str) -> int:
    """As the participant does before the point. Returns the version that has them."""
    if TableLog.open(uri) is None:
        files_at(uri).make_folder(uri)
        DeltaTable.create(str(uri), ACCEPTED)
    place = {"topic": "t", "partition": 0, "generation": of.generation, "batch_id": of.batch_id}
    rows = [
        {"id": c.id, "seq": c.seq, "name": c.name, "_lakemark": {**place, "offset": n, "deleted": c.deletes}}
        for n, c in enumerate(changes)
    ]
    with suppress(MarkerIsThereError):
        return land(
            Snapshot.of(uri), Append(pa.Table.from_pylist(rows, ACCEPTED)), Marker(of.app_id, of.batch_id), said
        )
    return Snapshot.of(uri).version


def process(
    number: int, changes: list[Change], attempt_id: str, fault: str = "", pipe: int = subprocess.PIPE
) -> subprocess.Popen:
    """An attempt in a process of its own, at a pipeline that commands know. Args: fault: what befalls it."""
    given = json.dumps([number, [asdict(change) for change in changes], attempt_id])
    env = {**os.environ, **({"LAKEMARK_TEST_FAULT": fault} if fault else {})}
    return subprocess.Popen([sys.executable, "-m", __name__, given], env=env, stdout=pipe, stderr=pipe, text=True)


def _main(given: str) -> None:
    number, changes, attempt_id = json.loads(given)
    settings = Settings.from_environment()
    coordinator = Coordinator(settings, find_pipeline("p", settings.pipelines, settings.environment))
    attempt(coordinator, number, [Change(**change) for change in changes], attempt_id)


if __name__ == "__main__":
    _main(sys.argv[1])
