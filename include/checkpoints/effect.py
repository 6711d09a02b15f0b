"""What going back would change: rows, files and columns of every table, batches that are undone, offsets that are read
again. It reads logs, and no data file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from include.checkpoints.listing import checkpoints_in
from include.control.sink_decisions import gets_again
from include.lake.merge.past import rows_in
from include.lake.merge.snapshot import Snapshot
from include.lake.table_log import TableLog
from include.participants.catalog import Catalog
from include.participants.fence import Fence
from include.participants.participant import POINT
from include.participants.verdicts import Verdict, verdict
from include.pipeline_file import Pipeline
from include.pipeline_file.tables import Tables
from include.protocol.checkpoints import Checkpoint
from include.protocol.deliveries import AGAIN
from include.protocol.errors import TerminalError
from include.protocol.json_data import JsonObject
from include.protocol.ledger_events import GenerationStarted
from include.protocol.ledger_state import LedgerState
from include.protocol.ranges import OffsetRange, TopicPartition
from include.settings import Settings


@dataclass(frozen=True)
class TableEffect:
    """What becomes of one table. Rows count as its log counts them: a deleted one stays as a row that is hidden."""

    verdict: Verdict
    rows: tuple[int | None, int | None]  # now, and then; None: its log does not say
    files_gone: int
    files_back: int

    def __str__(self) -> str:
        now, then = ("?" if number is None else f"{number:,}" for number in self.rows)
        return f"{self.verdict}; {now} rows become {then}, {self.files_gone:,} files go, {self.files_back:,} come back"

    def to_json(self) -> JsonObject:
        files = {"files_gone": self.files_gone, "files_back": self.files_back}
        return {**self.verdict.to_json(), "rows_now": self.rows[0], "rows_then": self.rows[1], **files}


@dataclass(frozen=True)
class Effect:
    """What a restore would change."""

    started: GenerationStarted
    tables: Sequence[TableEffect]
    left: Sequence[Verdict]  # tables that the pipeline file no longer names
    undone: Sequence[str]  # the names of checkpoints that came after, in the generation that ends
    read_again: Sequence[OffsetRange]
    sinks: Mapping[str, str] = field(default_factory=dict)  # what each gets, in words

    @property
    def lines(self) -> Iterator[str]:
        """It, for people."""
        yield from map(str, [*self.tables, *self.left])
        undone = f"{self.undone[0]} to {self.undone[-1]}" if self.undone else "none"
        yield f"batches that are undone: {len(self.undone):,} ({undone})"
        again = sum(one.width for one in self.read_again)
        yield f"offsets that are read again: {again:,} ({', '.join(map(str, self.read_again)) or 'none'})"
        yield from (f"sink {name}: {gets}" for name, gets in self.sinks.items())

    def to_json(self) -> JsonObject:
        return {
            "tables": [table.to_json() for table in self.tables],
            "left": [one.to_json() for one in self.left],
            "batches_undone": [*self.undone],
            "read_again": [one.to_json() for one in self.read_again],
            "sinks": dict.fromkeys(self.sinks, self.started.deliver or AGAIN),
        }


def effect_of(
    settings: Settings, pipeline: Pipeline, started: GenerationStarted, state: LedgerState, to: Checkpoint
) -> Effect:
    """What a restore would change.

    Args:
        started: as it would begin. state: of the ledger now. to: where it goes back to.

    Raises:
        TerminalError: a table cannot go back, see `whole_version`.
    """
    target = TableLog.open(Tables.of(settings, pipeline).target)
    pasts = {} if target is None else Fence(settings, pipeline, started).pasts(target)
    tables = []
    for participant in Catalog.of(pipeline).participants:
        uri = participant.uri(settings)
        past = pasts[participant.name].past if participant.name in pasts else None
        judged = verdict(participant, None if past is None else past.metadata)
        now = None if TableLog.open(uri) is None else Snapshot.of(uri)
        files = [set() if table is None else {*table.files} for table in (now, past)]
        rows = [0 if table is None else rows_in(table) for table in (now, past)]
        gone, back = len(files[0] - files[1]), len(files[1] - files[0])
        tables.append(TableEffect(judged, (rows[0], rows[1]), files_gone=gone, files_back=back))
    known = {table.verdict.table for table in tables}
    left = [
        Verdict(name, "leave", "the pipeline file no longer names it: it stays as it is, with what came later")
        for name, stood in to.all_positions(POINT).items()
        if name not in known and stood.version is not None
    ]
    same = [c for c in checkpoints_in(settings, pipeline) if c.key.generation == state.generation]
    undone = [c.name for c in same if (c.point.version or 0) > (to.point.version or 0)]
    again = _read_again(state, started.start_offsets)
    return Effect(started, tables, left, undone=undone, read_again=again, sinks=gets_again(pipeline, started.deliver))


def verify_possible(pipeline: str, verdicts: Sequence[Verdict]) -> None:
    """Raises TerminalError: the pipeline file cannot go on with rows of a table."""
    if bad := [one for one in verdicts if one.kind == "impossible"]:
        raise TerminalError(
            what="the pipeline file cannot go on with these rows",
            where=f"{pipeline}, {', '.join(one.table for one in bad)}",
            expected="the same keys, order and types, and at most further columns",
            found="; ".join(map(str, bad)),
            action=f"nothing was changed: let {pipeline}.yaml declare as it was what the error names; or choose "
            "another checkpoint or savepoint",
        )


def _read_again(state: LedgerState, offsets: Mapping[TopicPartition, int]) -> list[OffsetRange]:
    now = state.committed_offsets
    back = sorted((tp, at) for tp, at in offsets.items() if at < now.get(tp, 0))
    return [OffsetRange(tp.topic, tp.partition, at, now[tp]) for tp, at in back]
