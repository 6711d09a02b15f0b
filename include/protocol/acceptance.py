"""What a new generation does with tables, the target among them, that are not as the last landed batch left them. Pure.

Reading again fills such a table, as far as the new generation begins early enough. Otherwise it would go on without
what it lacks, for good and in silence: a person has to accept it by its name.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from include.protocol.errors import TargetBehindLedger
from include.protocol.ledger_events import EARLIEST, PROMOTION, REBUILT, GenerationStarted
from include.protocol.ledger_state import LedgerState
from include.protocol.ranges import OffsetRange
from include.protocol.settlement import TargetView, rollback_of, verify_target_not_behind


@dataclass(frozen=True)
class Lack:
    """A table that cannot be made what the last landed batch has left there."""

    table: str  # the participant's name
    expected: str
    found: str
    first: int | None = None  # the batch of the generation from which on it lacks rows; None: earlier ones, too
    is_surplus: bool = False  # it holds rows of a batch that never landed: reading again does not remove them
    is_target: bool = False


def lacks_of_the_target(pipeline: str, table: str, state: LedgerState, target: TargetView | None) -> list[Lack]:
    """What the target lacks, as `verify_target_not_behind` sees it.

    Args:
        table: the participant's name. target: None if there is no such table.
    """
    try:
        verify_target_not_behind(pipeline, state, target)
    except TargetBehindLedger as error:
        rollback = rollback_of(state, target)
        back_to = rollback.back_to if rollback is not None else None
        first = None if back_to is None else state.first_after(back_to)
        return [Lack(table, expected=error.expected, found=error.found, first=first, is_target=True)]
    return []


def verify_accepted(
    pipeline: str,
    state: LedgerState,
    started: GenerationStarted,
    lacks: Sequence[Lack],
    accepted: Collection[str],
    gone: Sequence[OffsetRange] = (),
    archive: str | None = None,
    landing: str | None = None,
) -> None:
    """Checks that a new generation fills every table that lacks rows, or that a person has accepted the table.

    Args:
        state: of the generation that ends. accepted: the names of tables. gone: what was read once, and a generation
            that begins at the earliest record does not read again. archive: where such records may be. landing: who has
            filled the archive, if the pipeline reads that instead of Kafka.

    Raises:
        TargetBehindLedger: neither.
    """
    left = [lack for lack in lacks if lack.table not in accepted and not _fills(started, state, lack, gone)]
    if left and started.origin == EARLIEST and gone:
        raise _not_archived(pipeline, left, gone, landing) if landing else _out_of_reach(pipeline, left, gone, archive)
    if left:
        raise TargetBehindLedger(
            what="a table that batches write is not as the last batch left it, and this would leave it so",
            where=f"{pipeline}, {', '.join(lack.table for lack in left)}",
            expected="; ".join(lack.expected for lack in left),
            found="; ".join(lack.found for lack in left),
            action=f"nothing was changed. {_way_out(pipeline, started, left)}",
        )


def _fills(started: GenerationStarted, state: LedgerState, lack: Lack, gone: Sequence[OffsetRange]) -> bool:
    """Whether the generation reads again what a table lacks. Changes are order-proof (I9)."""
    if lack.is_surplus:
        return False
    if started.origin == EARLIEST and not gone:
        return True
    if lack.is_target and started.origin.startswith(PROMOTION):  # other rows take the place of all of its rows
        return True
    if lack.first is None or started.generation <= state.generation:
        return False
    wanted = state.offsets_before(lack.first)
    return all(started.start_offsets.get(tp, offset) <= offset for tp, offset in wanted.items())


def _out_of_reach(
    pipeline: str, left: Sequence[Lack], gone: Sequence[OffsetRange], archive: str | None
) -> TargetBehindLedger:
    accept = " --accept ".join(lack.table for lack in left)
    then = f"; `lakemark run {pipeline} --from-archive` then writes into the target what the archive holds"
    return TargetBehindLedger(
        what="a table lacks rows of records that Kafka has dropped, and this would leave it so",
        where=f"{pipeline}, {', '.join(lack.table for lack in left)}",
        expected="; ".join(lack.expected for lack in left),
        found=f"{'; '.join(lack.found for lack in left)}; Kafka no longer holds {', '.join(map(str, gone))}",
        action="nothing was changed. Bring the right one back from a copy; or, to go on without those rows, `lakemark "
        f"reset {pipeline} --from {EARLIEST} --accept {accept} --reason ...`{then if archive else ''}",
    )


def _not_archived(pipeline: str, left: Sequence[Lack], gone: Sequence[OffsetRange], landing: str) -> TargetBehindLedger:
    again = f"lakemark reset {pipeline} --from {EARLIEST}"
    accept = " --accept ".join(lack.table for lack in left)
    return TargetBehindLedger(
        what="a table lacks rows of records that the archive does not hold, and this would leave it so",
        where=f"{pipeline}, {', '.join(lack.table for lack in left)}",
        expected="; ".join(lack.expected for lack in left),
        found=f"{'; '.join(lack.found for lack in left)}; the archive lacks {', '.join(map(str, gone))}",
        action=f"nothing was changed. `lakemark reset {landing} --from {EARLIEST} --reason ...` and `lakemark run "
        f"{landing} --until-caught-up` archive again what Kafka still holds: then the same command again; or, to go on "
        f"without those rows, `{again} --accept {accept} --reason ...`",
    )


def _way_out(pipeline: str, started: GenerationStarted, left: Sequence[Lack]) -> str:
    accept = " --accept ".join(lack.table for lack in left)
    is_surplus = any(lack.is_surplus for lack in left)
    back = (
        "Bring its files back from a copy; or move its folder away, and"
        if is_surplus
        else "Bring the right one back; or"
    )
    fills = "fills it again (changes are order-proof)"
    if (first := _before_a_reset(pipeline, started, accept)) is not None:
        return f"{back} `{first}`, and then `lakemark reset {pipeline} --from {EARLIEST} --reason ...` {fills}"
    firsts = [lack.first for lack in left if lack.first is not None]
    origin = EARLIEST if len(firsts) < len(left) else str(min(firsts))
    return (
        f"{back} `lakemark reset {pipeline} --from {origin} --reason ...` {fills}; or, to go on with it as it is, the "
        f"same command with --accept {accept} (in Airflow: the form of `lakemark__{pipeline}__reset`)"
    )


def _before_a_reset(pipeline: str, started: GenerationStarted, accept: str) -> str | None:
    """The command that has to come first: what it is about stops a reset, too. None: there is none."""
    if started.skipped:
        ranges = " --range ".join(lost.as_argument() for lost in started.skipped)
        return f"lakemark ledger skip {pipeline} --range {ranges} --accept {accept} --reason ..."
    if started.origin in REBUILT:
        return f"lakemark ledger rebuild {pipeline} --accept {accept}"
    return None
