"""The kinds of faults that the soak injects. Each is a function of the victim; it returns False if it had no effect."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from include.fault_points import OF_PIPELINES
from tests.soak import by_hand, crashes, losses, store
from tests.soak.victim import Victim

Fault = Callable[[Victim], bool]
ROLES = ("target", "archive", "quarantine", "history", "route")

KINDS: dict[str, Fault] = {
    **{f"killed at {point}": partial(crashes.killed_at, point) for point in OF_PIPELINES},
    "killed at random": crashes.killed_at_random,
    "spark killed": partial(crashes.service_killed, "spark"),
    "kafka killed": partial(crashes.service_killed, "kafka"),
    "spark frozen": partial(crashes.service_frozen, "spark"),
    "kafka frozen": partial(crashes.service_frozen, "kafka"),
    "zombie": partial(crashes.zombie, "attempt.before_merge"),
    "zombie of the lane": partial(crashes.zombie, "lane.decided", LAKEMARK_MERGE_ENGINE="lane"),
    "two at once": crashes.two_at_once,
    "reset in the middle": crashes.reset_in_the_middle,
    "ledger deleted": partial(losses.ledger_lost, "deleted"),
    "ledger emptied": partial(losses.ledger_lost, "emptied"),
    "records expired": losses.records_expired,
    "transaction aborted": losses.transaction_aborted,
    "table maintained": losses.table_maintained,
    "table restored": losses.table_restored,
    "topic created anew": losses.topic_created_anew,
    "backfill over purged deletes": losses.backfill_over_purged_deletes,
    **{
        f"{role} rolled back while planned": partial(by_hand.undone_while_planned, by_hand.RESTORED, role)
        for role in ROLES
    },
    **{
        f"{role} replaced while planned": partial(by_hand.undone_while_planned, by_hand.REPLACED, role)
        for role in ROLES
    },
    **{f"rows taken out of {role}": partial(by_hand.rows_taken_out, role) for role in ROLES},
    "gone back": by_hand.gone_back,
    "killed while going back": partial(by_hand.gone_back, fault="generation.part_fenced=kill@2"),
    "gone back by name": by_hand.gone_back_by_name,
    "killed while a savepoint is made": partial(by_hand.gone_back_by_name, fault="savepoint.table_saved=kill"),
    "killed while going back by name": partial(by_hand.gone_back_by_name, fault="generation.part_fenced=kill@2"),
    "target lost after a reset": by_hand.target_lost_after_reset,
    "suite changed between attempts": by_hand.suite_changed,
}


ON_S3: dict[str, Fault] = {
    "store deals faults": store.deals_faults,
    "store loses answers to commits": partial(store.breaks_commits, "answer lost"),
    "store answers commits with 500": partial(store.breaks_commits, "answered 500"),
    "store answers commits with 409": partial(store.breaks_commits, "answered 409"),
    "store killed": partial(crashes.service_killed, "s3"),
    "store frozen": partial(crashes.service_frozen, "s3"),
}
# Files are damaged by hand, which an object's store does not do by halves.
_OF_FILES = ("ledger emptied", "killed at rebuild.set_aside")


def kinds_on(lake: str) -> dict[str, Fault]:
    """The kinds for a lake on this kind of place."""
    return {k: fault for k, fault in {**KINDS, **ON_S3}.items() if k not in _OF_FILES} if lake == "s3" else KINDS


def can_suffer(kind: str, victim: Victim) -> bool:
    """Whether the kind is for this pipeline: not every attempt passes every fault point."""
    match kind:
        case "records expired" | "topic created anew":
            return victim.forgets
        case "backfill over purged deletes":
            return victim.purges
        case "target lost after a reset":
            return victim.is_whole
        case "killed at sink.prepared" | "killed at sink.landed":
            return victim.moves_together
    if kind.startswith("killed at sink."):
        return bool(victim.outlets)
    hurt = next((role for role in ROLES if kind in (*_done_to(role),)), None)
    return hurt is None or hurt in victim.tables


def _done_to(role: str) -> tuple[str, ...]:
    return f"{role} rolled back while planned", f"{role} replaced while planned", f"rows taken out of {role}"
