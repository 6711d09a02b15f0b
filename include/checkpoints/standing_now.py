"""Where a pipeline's tables stand now: at the newest checkpoint, with what chunks of backfills have landed since, and
with what people have changed by hand.

The ledger does not know which chunks have landed (a backfill goes on beside the batches); the tables' logs do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from include.lake.table_log import TableLog
from include.participants.catalog import Catalog
from include.participants.fence import with_chunks_of
from include.pipeline_file import Pipeline
from include.pipeline_file.tables import Tables
from include.protocol.batch import BatchKey
from include.protocol.checkpoints import Checkpoint
from include.protocol.ledger_events import GenerationStarted
from include.protocol.participants import NOWHERE, Position
from include.protocol.settlement import LandedCommit
from include.settings import Settings

_RESTORE = "RESTORE"  # by hand: `protocol.settlement` says what it means


def with_what_came_since(
    settings: Settings, pipeline: Pipeline, found: Checkpoint, generations: Sequence[GenerationStarted]
) -> Checkpoint:
    """A checkpoint together with the chunks that have landed since, and with rows that other writers have changed (a
    person may have erased some); the same one if there is nothing of that.

    A chunk lands in the target last, so what has landed there is in the other tables, too.

    Args:
        found: the newest, or the one that the tables went back to. generations: how each began, in order.
    """
    log = TableLog.open(Tables.of(settings, pipeline).target)
    if log is None or found.positions is None or found.point.identity not in (None, log.table_id):
        return found
    chunks = list(_chunks_in(log, pipeline.name, _since(found, generations)))
    if chunks:
        found = _with_chunks(settings, pipeline, found, chunks)
    keys = {chunk.metadata.batch.key for chunk in chunks}
    positions = dict(found.positions or {})
    for participant in Catalog.of(pipeline).before:
        stood = positions.get(participant.name, NOWHERE)
        if (own := TableLog.open(participant.uri(settings))) is not None:
            positions[participant.name] = _with_hand_made(stood, own, pipeline.name, keys)
    return replace(found, point=_with_hand_made(found.point, log, pipeline.name, keys), positions=positions)


def _with_chunks(
    settings: Settings, pipeline: Pipeline, found: Checkpoint, chunks: Sequence[LandedCommit]
) -> Checkpoint:
    """Args: chunks: newest first."""
    keys, newest = {chunk.metadata.batch.key for chunk in chunks}, chunks[0]
    positions = dict(found.positions or {})
    for participant in Catalog.of(pipeline).before:
        stood = positions.get(participant.name, NOWHERE)
        now = with_chunks_of(stood, participant.uri(settings), pipeline.name, keys.__contains__)
        positions[participant.name] = now
    key = newest.metadata.batch.key
    return replace(
        found,
        key=key,
        committed_at=newest.committed_at,
        point=Position(*key, revision=0, version=newest.table_version, identity=newest.table_id),
        positions=positions,
        counts=None,
    )


def _with_hand_made(stood: Position, log: TableLog, pipeline: str, keys: set[BatchKey]) -> Position:
    """Where a table stands with what other writers have changed. What came after a part of a batch that has not landed
    is left out: that batch's checkpoint has it.

    Args:
        keys: the chunks that it stands with.
    """
    if stood.version is None or stood.identity not in (None, log.table_id):
        return stood
    newest = [*log.newest_entries(pipeline, log.version - stood.version)]
    since = [entry for entry in newest if entry.version > stood.version]
    brought = (n for n, entry in enumerate(since) if entry.begun is not None and entry.begun.brings_rows)
    version = stood.version
    for entry in reversed(since[: next(brought, len(since))]):
        if entry.operation == _RESTORE or (entry.landed is not None and entry.landed.metadata.batch.key not in keys):
            break
        if entry.is_foreign:
            version = entry.version
    return stood if version == stood.version else replace(stood, version=version, identity=log.table_id)


def _since(found: Checkpoint, generations: Sequence[GenerationStarted]) -> int:
    """The version of the target after which a chunk is not in the checkpoint: a restore commits what was there before
    as a new version."""
    brought = (begun.target_version or 0 for begun in generations if begun.brings_rows)
    return max(found.point.version or 0, *brought, 0)


def _chunks_in(log: TableLog, pipeline: str, since: int) -> Iterator[LandedCommit]:
    """The chunks that landed after a version, newest first, but for those that a RESTORE by hand took away."""
    restored = log.restored(since, log.version)
    gone, back_to = restored if restored is not None else (since, since)
    for commit in log.landed_commits(pipeline):
        version = commit.table_version
        if version <= since:
            return
        if commit.metadata.batch.is_chunk and (version > gone or (back_to is not None and version <= back_to)):
            yield commit
