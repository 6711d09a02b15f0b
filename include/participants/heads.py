"""Reads where the tables before the point stand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from include.lake.log_tail import newest_infos
from include.lake.operations import CLONED
from include.lake.table_log import TableLog
from include.participants.catalog import Catalog
from include.pipeline_file import Pipeline
from include.protocol.batch import FORM, BatchKey
from include.protocol.beginnings import Unnamed, before_what_never_landed, unnamed_by
from include.protocol.ledger_events import FIRST_GENERATION
from include.protocol.ledger_state import LedgerState
from include.protocol.participants import NOWHERE, Position, Positions, Where, repair_due, rolled_back
from include.protocol.settlement import ledger_lost
from include.settings import Settings

_MAKE = ("CREATE TABLE", "CREATE OR REPLACE TABLE", "REPLACE TABLE", CLONED)  # operations that give a table another id
Logs = Mapping[str, TableLog | None]  # of the tables before the point, by name; None: there is no such table


def logs_before(settings: Settings, pipeline: Pipeline) -> Logs:
    """Opens all tables before the point. Raises TableDamaged: see there."""
    return {p.name: TableLog.open(p.uri(settings)) for p in Catalog.of(pipeline).before}


def heads_of(settings: Settings, pipeline: Pipeline, state: LedgerState) -> dict[str, Position]:
    """Where every table before the point stands now.

    Args:
        state: the ledger's.

    Raises:
        LedgerBehindTarget: a table says that the generation has ended. TableDamaged: see there.
        TargetBehindLedger: a RESTORE has rolled a table back.
    """
    heads = {}
    for name, log in logs_before(settings, pipeline).items():
        heads[name] = NOWHERE if log is None else log.position(pipeline.name, state.generation, state.form)
        verify_not_rolled_back(log, state.positions.get(name), Where(pipeline.name, name))
    return heads


def mends_of(settings: Settings, pipeline: Pipeline, state: LedgerState) -> list[str]:
    """The tables before the point that the next batch mends, by name. A batch that is planned has decided that already.
    Args and errors: see `heads_of`."""
    if state.pending is not None:
        return list(state.pending.batch.mends)
    return repair_due(state.positions, heads_of(settings, pipeline, state))


def verify_not_rolled_back(log: TableLog | None, named: Position | None, where: Where) -> None:
    """Checks for a RESTORE since a table stood at a position. It removes rows and leaves markers as they are, so a head
    that is at its position proves nothing.

    Args:
        named: None: the table is accepted as it is.

    Raises:
        TargetBehindLedger: there was one.
    """
    if named is not None and (restored := restored_since(log, named)) is not None:
        raise rolled_back(named, *restored, where)


def restored_since(log: TableLog | None, named: Position) -> tuple[int, int | None] | None:
    """The RESTORE that has taken from a table what it held at a position: see `TableLog.restored`."""
    if log is None or named.version is None or log.version <= named.version or log.table_id != named.identity:
        return None
    return log.restored(named.version, log.version)


def newest_heads(pipeline: str, logs: Logs, generation: int, form: int = FORM) -> dict[str, Position]:
    """The same, if the tables may know later generations than this one.

    Args:
        generation: one that has existed. form: of its batches.
    """
    return {
        name: NOWHERE if log is None else log.newest_position(pipeline, generation, form) for name, log in logs.items()
    }


def newest_generation_beside(pipeline: str, logs: Logs) -> int:
    """The newest generation that any of these tables knows; 0: they know none. The one after a fence has been decided,
    and may have begun."""
    begun = [log.newest_generation_after(pipeline, FIRST_GENERATION) for log in logs.values() if log is not None]
    heads = newest_heads(pipeline, logs, FIRST_GENERATION).values()
    return max([0, *(g for g in begun if g > FIRST_GENERATION), *(head.generation for head in heads)])


def verify_ledger_not_lost(pipeline: str, target: TableLog | None, logs: Logs) -> None:
    """Checks that a target knows no generation, if its ledger knows none.

    A target that was lost itself at some time has no fence of the first generation. So all generations are asked for
    that any table knows.

    Raises:
        LedgerBehindTarget: it knows some.
    """
    if target is None:
        return
    newest = target.newest_generation(pipeline, max(FIRST_GENERATION, newest_generation_beside(pipeline, logs)))
    known = [g for g in range(FIRST_GENERATION, newest + 1) if target.marker(pipeline, g) is not None]
    if known:
        raise ledger_lost(pipeline, f"{pipeline}, generations {', '.join(map(str, known))}")


def heads_to_begin_with(pipeline: str, logs: Logs, state: LedgerState) -> dict[str, Position]:
    """Where the tables of the generation after `state`'s must stand, as far as they go on as they are."""
    unnamed = unnamed_by(state)
    return heads_after(pipeline, logs, state.generation, state.positions, unnamed=unnamed, form=state.form)


def heads_after(
    pipeline: str, logs: Logs, generation: int, named: Positions, unnamed: Unnamed, form: int
) -> dict[str, Position]:
    """The same, from what is known of a generation whose ledger was lost.

    Args:
        named, unnamed: as for `before_what_never_landed`, the first one by table. form: of the generation's batches.
    """
    heads = newest_heads(pipeline, logs, generation, form)
    for name, log in logs.items():
        if log is None:
            continue
        restored = partial(log.restored, until_version=log.version)
        live = _live_since_made(pipeline, log)
        heads[name] = before_what_never_landed(
            heads[name], named.get(name), live=live, unnamed=unnamed, restored=restored
        )
    return heads


def _live_since_made(pipeline: str, log: TableLog) -> Iterator[tuple[int, BatchKey]]:
    """The commits of live batches since somebody made or replaced a table, oldest first, with their versions. The log
    is read only if somebody asks: few tables need it."""
    infos = newest_infos(log.uri, log.version)
    made_at = next((info["version"] for info in infos if (info.get("operation") or "").startswith(_MAKE)), -1)
    yield from ((version, batch.key) for version, batch in log.live_commits(pipeline, made_at))
