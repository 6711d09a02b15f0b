"""Checks of where the tables before the point stand, and of what the quarantine holds. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from include.audit.report import Finding, finding_of
from include.participants.records import QUARANTINE
from include.protocol.batch import BatchKey
from include.protocol.errors import TargetBehindLedger
from include.protocol.ledger_state import LedgerState
from include.protocol.left_out import known
from include.protocol.participants import Position, Where, is_behind, verify_not_behind
from include.protocol.settlement import LandedCommit


def lacking_findings(pipeline: str, state: LedgerState, table: str, found: Position) -> Iterator[Finding]:
    """A table lacks what the last landed batch has left there, or is another one (I11).

    Args:
        found: where it stands, as read after `state`: what has landed until then is there.
    """
    if (named := known(state, {table: found}).get(table)) is not None and state.pending is None:
        try:
            verify_not_behind(found, named, Where(pipeline, table))
        except TargetBehindLedger as error:
            yield finding_of(error)


def surplus_findings(pipeline: str, state: LedgerState, table: str, found: Position) -> Iterator[Finding]:
    """A table holds what no landed batch has left there (I11).

    Args:
        found: where it stands, as read before `state`: a batch is planned before it lands.
    """
    if (named := _settled(state, table)) is not None and not (found.is_at(named) or is_behind(found, named)):
        yield Finding(
            f"it holds what no landed batch has left there: {found.in_words}, and not {named.in_words}",
            f"{pipeline}, {table}",
            f"nothing by hand: the next batch mends it, also without records (`lakemark run {pipeline}`)",
        )


def until_mended(findings: Iterable[Finding], mends: Collection[str], pipeline: str) -> Iterator[Finding]:
    """Findings in rows, with other advice where a repair is due: nobody else need have written there.

    Args:
        mends: the tables, by name.
    """
    action = f"`lakemark run {pipeline}` makes the repair that is due there: audit again after it"
    return (replace(finding, action=action) if finding.table in mends else finding for finding in findings)


def _settled(state: LedgerState, table: str) -> Position | None:
    """Where the table must stand; None: a batch may be landing there, or nothing says it."""
    return state.positions.get(table) if state.pending is None else None


def still_there(commits: Iterable[LandedCommit], until: int | None = None) -> list[LandedCommit]:
    """The commits whose rows a table holds, newest first. A Replace takes back the live batches that came after the
    version that it was made from, other Replaces among them; it leaves chunks as they are.

    Args:
        commits: of one pipeline's batches in the table. until: the version at which the live batches stand; None: the
            newest.
    """
    found = []
    for commit in sorted(commits, key=lambda commit: commit.table_version, reverse=True):
        if not commit.metadata.batch.is_chunk:
            if until is not None and commit.table_version > until:
                continue
            until = until if commit.metadata.made_from is None else commit.metadata.made_from
        found.append(commit)
    return found


def set_aside_findings(
    landed: Iterable[LandedCommit], aside: Iterable[LandedCommit], named: Position | None
) -> Iterator[Finding]:
    """Checks that the quarantine holds exactly the records that each batch's commit set aside (I8, I11).

    Args:
        aside: the quarantine's commits of batches.
        named: where the last landed batch has left the quarantine. What live batches have written there since is no
            part of any landed one: see `surplus_findings`. None: no batch says it.
    """
    held: dict[BatchKey, LandedCommit] = {}
    for commit in still_there(aside, None if named is None else named.since_version):
        held.setdefault(commit.metadata.batch.key, commit)
    for commit in landed:
        kept = held.get(commit.metadata.batch.key)
        if kept is not None and commit.metadata.set_aside not in (None, kept.metadata.set_aside):
            yield Finding(
                "the quarantine holds other records of the batch than its commit set aside",
                f"{commit.metadata.batch}, version {commit.table_version}",
                "two attempts with different suites or pipeline files ran at once: backfill the batch",
                table=QUARANTINE,
            )
