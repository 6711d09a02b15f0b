"""Keeps the log of a table small where the lane makes its checkpoints. Spark cleans a log only at its own checkpoints.

A checkpoint names every file that was removed in the last week. So a table of small batches has many of them, and each
is longer than the one before. A version can be read from any older checkpoint and the commits since: of the old ones,
one of every hundred versions is enough.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import timedelta

from deltalake.exceptions import DeltaError

from include.lake.delta_tables import open_table
from include.lake.log_store import LOG, checkpoint_file, checkpoint_of
from include.lake.stores import files_at
from include.lake.uri import LakeUri

_YOUNG = 3600.0  # seconds: whoever reads the table now may have just been told of it
_LEFT = 86_400.0  # seconds: a writer that still needs a file that it has not named by then finds that it is gone
_SPACING = 100  # versions
_DEFAULT_RETENTION = "interval 30 days"
_UNITS = {name: timedelta(**{f"{name}s": 1}) for name in ("week", "day", "hour", "minute", "second")}


def log_retention(configuration: Mapping[str, str]) -> timedelta:
    """How long the commits of a table are kept, by its properties (`interval 30 days`, in Delta's words). Zero if it
    cannot be read."""
    text = configuration.get("delta.logRetentionDuration", _DEFAULT_RETENTION)
    match = re.fullmatch(r"(?:interval\s+)?(\d{1,6})\s+([a-z]+?)s?", text.strip().lower())
    return int(match[1]) * _UNITS.get(match[2], timedelta()) if match else timedelta()


def clean_log(uri: LakeUri) -> int:
    """Removes commits and checkpoints that are older than the table's `delta.logRetentionDuration`, old checkpoints
    that are close to others, and what killed writers have left. Returns how many of the close ones; 0 if there is no
    table. Every version stays readable.

    Raises:
        TableDamaged: see `open_table`. OSError: the store refuses.
    """
    table = open_table(uri)
    if table is None:
        return 0
    with suppress(DeltaError):  # another process cleans it, too
        table.cleanup_metadata()
    remove_leftovers(uri)
    files, log = files_at(uri), uri / LOG
    named = ((checkpoint_of(file.name), file.modified_at) for file in files.list(log))
    found = {version: at for version, at in named if version is not None}
    old = spent(found.keys(), (v for v, at in found.items() if at > time.time() - _YOUNG))
    for version in old:
        files.remove(log / checkpoint_file(version))
    return len(old)


def remove_leftovers(uri: LakeUri) -> None:
    """Removes what killed writers have left in a table's log: files of commits that have got no version. Raises
    OSError: the store refuses."""
    files, log, now = files_at(uri), uri / LOG, time.time()
    for file in [*files.list(log)]:
        if file.name.endswith(".tmp") and file.modified_at < now - _LEFT:
            files.remove(log / file.name)


def spent(checkpoints: Iterable[int], kept: Iterable[int]) -> list[int]:
    """The versions of the checkpoints that nobody needs: all but the newest one, and the first of every hundred.

    Args:
        kept: versions of those that stay in any case.
    """
    versions = sorted(checkpoints)
    first_of = {version // _SPACING: version for version in reversed(versions)}
    stay = {*versions[-1:], *first_of.values(), *kept}
    return [version for version in versions if version not in stay]
