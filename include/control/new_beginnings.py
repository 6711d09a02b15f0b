"""Generations that a plan begins by itself: after a loss of the ledger and the target, and after an upgrade."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace

from include.control.generation_change import GenerationChange
from include.control.settling import Settler
from include.lake.table_log import TableLog
from include.participants.fence import Fence
from include.participants.heads import (
    Logs,
    logs_before,
    newest_generation_beside,
    newest_heads,
    verify_ledger_not_lost,
)
from include.protocol.batch import FORM
from include.protocol.generations import First, after_a_loss, restart
from include.protocol.ledger_events import FIRST_GENERATION, LOSS, UPGRADE, BatchPlanned, Event, GenerationStarted
from include.protocol.ledger_state import LedgerState
from include.protocol.planning import SourceExtent, verify_topics
from include.sources.archive import first_offsets_in


def continue_after_a_loss(settler: Settler, state: LedgerState) -> LedgerState:
    """Begins above all generations that the tables know, if this ledger and the target know none of them (I2).

    Otherwise the new ledger's first generation would take the lost one's markers for its own. The first batch makes the
    target. Returns the ledger's state after that.
    """
    if state.is_fresh and (started := _after_a_loss(settler)) is not None:
        state = settler.ledger.append(lambda now: [started] if now.is_fresh else [])
    begun = state.generations[-1] if state.generations else None
    if begun is not None and begun.origin == LOSS and state.committed_through < 0:
        # After the record, which decides between planners; and again if this was killed in between.
        Fence(settler.settings, settler.pipeline, begun).raise_before(FORM)
    return state


def _after_a_loss(settler: Settler) -> GenerationStarted | None:
    """The generation that a fresh ledger begins with; None: there was no loss.

    Raises:
        LedgerBehindTarget: only the ledger was lost. RetryableError: the source does not answer.
    """
    target, logs = TableLog.open(settler.tables.target), logs_before(settler.settings, settler.pipeline)
    if not settler.ledger.recent().is_fresh:
        return None  # others plan and land at the same time: what the tables hold, the ledger may know by now
    verify_ledger_not_lost(settler.pipeline.name, target, logs)
    if not (newest := newest_generation_beside(settler.pipeline.name, logs)):
        return None
    reason = "the ledger and the target were lost, and other tables hold earlier batches"
    heads = newest_heads(settler.pipeline.name, logs, FIRST_GENERATION)
    source = settler.source()
    read = _read_once(settler, logs, source.topic_ids)
    started = after_a_loss(newest, read, source, reason, started_by="plan")
    return replace(started, positions=heads)


def _read_once(settler: Settler, logs: Logs, topic_ids: Mapping[str, str]) -> Iterator[First]:
    """What the tables before the point know of. Log clean-up removes old commits; an archive's rows stay."""
    for log in filter(None, logs.values()):
        for commit in log.landed_commits(settler.pipeline.name):
            batch = commit.metadata.batch
            if not batch.is_chunk:
                yield from ((r.topic_partition, batch.topic_ids[r.topic], r.start_offset) for r in batch.ranges)
        if log.uri == settler.tables.archive:
            yield from ((tp, topic_ids[tp.topic], at) for tp, at in first_offsets_in(log, topic_ids).items())


def continue_in_the_new_form(settler: Settler, state: LedgerState, create_target: Callable[[], None]) -> None:
    """Begins a generation if this one was begun by an older Lakemark. Its jobs are fenced, and all markers that follow
    have the new form (I5). A batch that was planned keeps its ranges and its pins (I1).

    Args:
        create_target: called if there is no target.
    """
    if state.form == FORM:
        return
    name = settler.pipeline.name

    def decide(state: LedgerState, source: SourceExtent) -> GenerationStarted:
        if state.form == FORM:
            raise _NotNeededError  # another planner was faster
        verify_topics(name, state.topic_ids, state.cluster_id, source)
        started = restart(
            name,
            state,
            source,
            origin="committed",
            kafka_order_decides=False,
            reason="a newer Lakemark, whose batches have another form",
            started_by="plan",
        )
        return replace(started, origin=UPGRADE)

    def planned_again(state: LedgerState, started: GenerationStarted) -> list[Event]:
        if state.pending is None:
            return []
        batch = replace(state.pending.batch, generation=started.generation, batch_id=0, form=FORM)
        return [BatchPlanned(batch, started.positions or {})]

    change = GenerationChange(settler, create_target)
    is_first = state.generation == FIRST_GENERATION and state.committed_through < 0
    with suppress(_NotNeededError):
        if is_first and TableLog.open(settler.tables.target) is None:
            change.begin_without_target(decide, planned_again)
        else:
            change.begin(decide, planned_again)


class _NotNeededError(Exception):
    """The generation has the new form already."""
