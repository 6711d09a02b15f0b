"""The error for a table that cannot be read: what is wrong with it, and what may be done about that."""

from __future__ import annotations

from contextlib import suppress

from include.lake.log_store import LOG, CheckpointHint, checkpoint_file, checkpoint_of, commit_of
from include.lake.stores import files_at, log_store_of
from include.lake.trouble import trouble
from include.lake.uri import LakeUri
from include.protocol.errors import LakemarkError, TableDamaged


def damaged(uri: LakeUri, found: str) -> LakemarkError:
    """The error for a table whose log or files are incomplete; or, if that is why, for one that this process may not
    read, or whose store does not answer."""
    return trouble(uri, found) or TableDamaged(
        what="a table cannot be read",
        where=str(uri),
        expected="a Delta log without gaps, and every data file that it names",
        found=found,
        action=f"bring the file back from a copy or a snapshot of the disk; without one, {_way_out(uri)}",
    )


def _way_out(uri: LakeUri) -> str:
    if (checkpoint := _needless_checkpoint(uri)) is not None:
        name = checkpoint_file(checkpoint)
        return f"move `{name}`, if it is there, and `_last_checkpoint` out of {uri / LOG}: its commits say the same"
    if (uri.parent.parent.name, uri.parent.name) == ("_lakemark", "ledger"):
        return f"`lakemark ledger rebuild {uri.name}` makes the ledger again from the target's own commits"
    return (
        "if a pipeline writes it, move its folder away, and `lakemark reset NAME --from earliest --reason ...` (NAME: "
        "that pipeline) fills a new one from Kafka"
    )


def _needless_checkpoint(uri: LakeUri) -> int | None:
    """The version of a newest checkpoint that cannot be read, if the log has all commits that it stands for."""
    log, newest = log_store_of(uri), None
    with suppress(OSError):
        names = {file.name for file in files_at(uri).list(uri / LOG)}
        found = sorted(version for name in names if (version := checkpoint_of(name)) is not None)
        if (hint := CheckpointHint.of(log.last_checkpoint())) is not None:
            if not hint.is_one_file:
                return None  # nothing is known about another form
            newest = hint.version
        newest = max([*found, *filter(None, [newest])], default=None)
        if newest is None:
            return None
        try:
            log.read_checkpoint(newest, ["protocol"])
        except OSError:
            first = 1 + max((version for version in found if version < newest), default=-1)
            commits = {version for name in names if (version := commit_of(name)) is not None}
            through = min(newest, max(commits, default=-1))
            is_told = first <= through and commits.issuperset(range(first, through + 1))
            return newest if is_told else None
    return None


def on_one_line(error: Exception) -> str:
    """An error on one line, for another one that names it."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:400]}"
