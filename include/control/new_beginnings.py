"""Generations that a plan begins by itself: after a loss of the ledger and the target, and after an upgrade."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from include.control.generation_change import GenerationChange
from include.control.settling import Settler
from include.lake.table_log import TableLog
from include.participants.catalog import Catalog
from include.protocol.batch import FORM, Batch
from include.protocol.generations import after_a_loss, restart
from include.protocol.ledger_events import FIRST_GENERATION, UPGRADE, BatchPlanned, Event, GenerationStarted
from include.protocol.ledger_state import LedgerState
from include.protocol.participants import NOWHERE, Position
from include.protocol.planning import SourceExtent


def continue_after_a_loss(settler: Settler) -> None:
    """Begins above all generations that the tables know, if this ledger and the target know none of them (I2).

    Otherwise the new ledger's first generation would take the lost one's markers for its own. The first batch makes the
    target.
    """
    if not settler.ledger.recent().is_fresh:
        return
    name, target = settler.pipeline.name, TableLog.open(settler.tables.target)
    if target is not None and target.marker(name, FIRST_GENERATION) is not None:
        return  # the plan will say that the ledger was lost
    heads: dict[str, Position] = {}
    for participant in Catalog.of(settler.pipeline).before:
        log = TableLog.open(participant.uri(settler.settings))
        heads[participant.name] = NOWHERE if log is None else log.newest_position(name, FIRST_GENERATION)
    newest = max((head.generation for head in heads.values()), default=0)
    if not newest:
        return
    reason = "the ledger and the target were lost, and other tables hold earlier batches"
    started = replace(after_a_loss(newest, reason, "plan"), positions=heads)
    GenerationChange(settler, lambda: None).fence_before(started)
    settler.ledger.append(lambda state: [started] if state.is_fresh else [])


def continue_in_the_new_form(settler: Settler, create_target: Callable[[], None]) -> None:
    """Begins a generation if this one was begun by an older Lakemark. Its jobs are fenced, and all markers that follow
    have the new form (I5). A batch that was planned keeps its ranges and its pins (I1).

    Args:
        create_target: called if there is no target.
    """
    if settler.ledger.recent().form == FORM:
        return
    planned: Batch | None = None

    def decide(state: LedgerState, source: SourceExtent) -> GenerationStarted:
        nonlocal planned
        if state.form == FORM:
            raise _NotNeededError  # another planner was faster
        planned = state.pending.batch if state.pending else None
        started = restart(
            settler.pipeline.name,
            state,
            source,
            origin="committed",
            kafka_order_decides=False,
            reason="a newer Lakemark, whose batches have another form",
            started_by="plan",
        )
        return replace(started, origin=UPGRADE)

    def again(state: LedgerState) -> list[Event]:
        if planned is None or state.generation != started.generation or state.batches:
            return []
        batch = replace(planned, generation=started.generation, batch_id=0, form=FORM)
        return [BatchPlanned(batch, started.positions or {})]

    with suppress(_NotNeededError):
        started, _ = GenerationChange(settler, create_target).begin(decide)
        settler.ledger.append(again)


class _NotNeededError(Exception):
    """The generation has the new form already."""
