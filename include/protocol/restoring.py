"""Going back to a checkpoint: tables and offsets together, as one change of generation. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from include.protocol.checkpoints import Checkpoint, verify_complete
from include.protocol.errors import OffsetsExpired, TerminalError
from include.protocol.first_offsets import FirstOffsets
from include.protocol.ledger_events import GenerationStarted
from include.protocol.ledger_state import LedgerState
from include.protocol.participants import NOWHERE, Position, Positions
from include.protocol.planning import SourceExtent, verify_topics
from include.protocol.ranges import OffsetRange, TopicPartition


def go_back(
    state: LedgerState,
    to: Checkpoint,
    source: SourceExtent,
    first: FirstOffsets,
    origin: str,
    reason: str,
    started_by: str,
) -> GenerationStarted:
    """The generation that begins where a checkpoint ended.

    A topic or a partition that the pipeline began to read since then is read again from where that was: nothing of it
    is in the tables any more.

    Args:
        state: of the generation that ends. first: where reading began; a clone's is the other pipeline's. origin:
            `CHECKPOINT` or `SAVEPOINT` with its name.

    Raises:
        TopicRecreated: a topic is another one now. OffsetsExpired: Kafka no longer holds what would have to be read
            again. TerminalError: the checkpoint does not say where the tables stood.
    """
    verify_complete(to)
    verify_topics(to.pipeline, _still_read(to.topic_ids, source), to.cluster_id, source)
    known = {**(first.topic_ids or {}), **state.topic_ids}
    later = {topic: id_ for topic, id_ in known.items() if topic not in to.topic_ids}
    verify_topics(to.pipeline, _still_read(later, source), state.cluster_id or to.cluster_id, source)
    partitions = {*state.next_offsets, *first.offsets}
    offsets = {tp: 0 if tp.topic in to.topic_ids else first.offsets.get(tp, 0) for tp in partitions}
    offsets = {tp: at for tp, at in {**offsets, **to.next_offsets}.items() if tp.topic in source.topic_ids}
    _verify_held(to, offsets, source)
    return GenerationStarted(
        generation=max(state.generation, to.key.generation) + 1,
        start_offsets=offsets,
        topic_ids=_still_read({**later, **to.topic_ids}, source),
        cluster_id=source.cluster_id,
        origin=origin,
        reason=reason,
        started_by=started_by,
        positions=to.positions,
        restored_to=to.point.version,
        table_id=to.point.identity,
    )


def cut_over(
    state: LedgerState, to: Checkpoint, source: SourceExtent, origin: str, reason: str, started_by: str
) -> GenerationStarted:
    """The generation that begins with the rows of another pipeline, which has read exactly as much.

    Args:
        state: of the generation that ends. to: the other one's checkpoint, as one of this pipeline: where its tables
            are now, and which batches have written their new rows.

    Raises:
        TopicRecreated: a topic is another one now. TerminalError: this pipeline has read more, or less.
    """
    verify_topics(to.pipeline, _still_read(to.topic_ids, source), to.cluster_id, source)
    if dict(state.committed_offsets) != dict(to.next_offsets):
        differing = sorted(tp for tp, at in to.next_offsets.items() if state.committed_offsets.get(tp) != at)
        raise TerminalError(
            what="the two pipelines have not read equally far",
            where=f"{to.pipeline}, {', '.join(map(str, differing)) or 'partitions that one of them does not read'}",
            expected="the same offsets in every partition",
            found="others",
            action="run the same command again: it lets both catch up first; nothing was changed",
        )
    return GenerationStarted(
        generation=max(state.generation, to.key.generation) + 1,
        start_offsets=dict(to.next_offsets),
        topic_ids=_still_read(to.topic_ids, source),
        cluster_id=source.cluster_id,
        origin=origin,
        reason=reason,
        started_by=started_by,
        positions=to.positions,
    )


def verify_no_backfill(pipeline: str, state: LedgerState) -> None:
    """Raises TerminalError: a backfill is under way, of whose rows some would be taken away, or not be taken along."""
    open_ones = [number for number, record in state.backfills.items() if record.outcome is None]
    if open_ones:
        raise TerminalError(
            what="a backfill is under way, and only a part of its rows would come along",
            where=f"{pipeline} backfill {open_ones[0]}",
            expected="backfills that have ended",
            found="one that has not",
            action=f"wait for its end, or `lakemark backfill {pipeline} --cancel {open_ones[0]}`; nothing was changed",
        )


def positions_after(to: Positions, tables: Mapping[str, str | None]) -> dict[str, Position]:
    """Where the tables before the point stand once a generation has gone back.

    Args:
        to: where they stood. tables: those that batches write now, with their ids; None: there is no such table. One
            that was not there yet is emptied.
    """
    return {**{name: replace(NOWHERE, identity=id_) for name, id_ in tables.items()}, **to}


def _still_read(topic_ids: Mapping[str, str], source: SourceExtent) -> dict[str, str]:
    return {topic: id_ for topic, id_ in topic_ids.items() if topic in source.topic_ids}


def _verify_held(to: Checkpoint, offsets: Mapping[TopicPartition, int], source: SourceExtent) -> None:
    lost: list[OffsetRange] = []
    for tp, offset in sorted(offsets.items()):
        extent = source.partitions.get(tp)
        if extent is None or extent.end_offset < offset:
            raise OffsetsExpired(
                what="Kafka has lost records at the end of a partition, so nobody can read on from there",
                where=f"{to.pipeline}, {to.in_words}, {tp}",
                expected=f"offsets up to {offset}",
                found="no such partition" if extent is None else f"the log ends at {extent.end_offset}",
                action="nothing was changed: restore the partition; or choose an earlier checkpoint "
                f"(`lakemark checkpoint list {to.pipeline}`)",
            )
        if extent.log_start_offset > offset:
            lost.append(OffsetRange(*tp, offset, extent.log_start_offset))
    if lost:
        raise OffsetsExpired(
            what="Kafka no longer holds the records after this checkpoint, so they would be missing for good",
            where=f"{to.pipeline}, {to.in_words}",
            expected=f"{', '.join(map(str, lost))} in Kafka",
            found="they are gone",
            action=f"nothing was changed: choose a later checkpoint (`lakemark checkpoint list {to.pipeline}`)",
        )


def file_brought_by(told: Sequence[GenerationStarted], generation: int) -> int:
    """The generation whose start brought the pipeline file that a generation went on by; 0: the first file.

    Args:
        told: the starts that brought a file (see `GenerationStarted.rules`), in order.
    """
    found = 0
    for one in told:
        if one.generation > generation:
            break
        back = "" if one.is_cut_over else (one.restored or "").partition("/")[0]
        found = file_brought_by(told, int(back)) if back.isdigit() else one.generation
    return found
