"""Reads the newest commits of a Delta table's log one by one, without listing the log's folder.

To open a table means to list that folder. With ten thousand commits and their checksum files, the listing takes most of
the time. Delta records where the newest checkpoint is (`_last_checkpoint`), a commit's file is named after its version,
and versions have no gaps (Delta protocol, "Delta Log Entries", "Last Checkpoint File"). So the newest commits can be
read by name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Self

from include.lake.damage import damaged, on_one_line
from include.lake.log_store import checkpoint_file, commit_file
from include.lake.stores import log_store_of
from include.lake.uri import LakeUri
from include.protocol.errors import RetryableError
from include.protocol.json_data import JsonObject

_COMMITS_MAX = 200  # since the checkpoint; a table with more has writers that make none, and is opened instead
_OF_METADATA = ("id", "schemaString", "configuration")
_WANTED_OF_CHECKPOINT = ("txn.appId", "txn.version", *(f"metaData.{name}" for name in _OF_METADATA))
_WANTED = re.compile(rb'\s*\{\s*"(commitInfo|txn|metaData)"')


@dataclass(frozen=True)
class LogTail:
    """A table's newest checkpoint and the commits after it, at the moment of reading."""

    uri: LakeUri
    checkpoint: int  # version; -1: there is none, and all commits are there
    version: int  # the newest
    stamp: str | None  # of that version: see `LogStore.stamp`

    @classmethod
    def of(cls, uri: LakeUri) -> Self | None:
        """None if there is no table, or if it must be opened instead: its checkpoint is not one file, or a commit is
        missing before a later one, or the first one."""
        tail = log_store_of(uri).tail()
        if tail is None or (tail.checkpoint < 0 and not tail.commits):
            return None
        stamps = {tail.checkpoint: None, **dict(tail.commits)}  # clean-up may have removed the checkpoint's own commit
        newest = max(stamps)
        if newest - tail.checkpoint > _COMMITS_MAX or len(stamps) <= newest - tail.checkpoint:
            return None
        return cls(uri, tail.checkpoint, newest, stamps[newest])

    def marker(self, app_id: str) -> int | None:
        """The last version that was set under an appId; None if none was."""
        for action in self._actions("txn"):
            if action["appId"] == app_id:
                return int(action["version"])
        return self._of_checkpoint[0].get(app_id)

    @property
    def table_id(self) -> str:
        return str(self._metadata["id"])

    @property
    def schema(self) -> str:
        """The table's columns, in Delta's JSON."""
        return str(self._metadata["schemaString"])

    @property
    def configuration(self) -> dict[str, str]:
        """The table's properties."""
        return dict(self._metadata.get("configuration") or {})

    @cached_property
    def _metadata(self) -> JsonObject:
        for action in self._actions("metaData"):
            return action
        return self._of_checkpoint[1]

    @cached_property
    def _of_checkpoint(self) -> tuple[dict[str, int], JsonObject]:
        """The markers in the checkpoint, and the table's metadata. Raises TableDamaged: it cannot be read."""
        if self.checkpoint < 0:
            return {}, {}
        try:
            checkpoint = log_store_of(self.uri).read_checkpoint(self.checkpoint, _WANTED_OF_CHECKPOINT)
            kinds = {kind: checkpoint[kind].to_pylist(maps_as_pydicts="strict") for kind in checkpoint.column_names}
            [metadata] = (found for found in kinds["metaData"] if found and found["id"])
        except (OSError, KeyError, ValueError) as error:
            name = checkpoint_file(self.checkpoint)
            raise damaged(self.uri, f"{name}: {on_one_line(error)}") from error
        markers = (found for found in kinds.get("txn", ()) if found and found["appId"])
        return {found["appId"]: int(found["version"]) for found in markers}, metadata

    def _actions(self, kind: str) -> Iterator[JsonObject]:
        """The actions of a kind, newest first."""
        for commit in self._commits:
            yield from (action[kind] for action in reversed(commit) if kind in action)

    @cached_property
    def _commits(self) -> list[list[JsonObject]]:
        """Actions by commit, newest commit first.

        Raises:
            TableDamaged: see `_actions`; or a commit is gone that was there a moment ago. An older commit must not
                answer in its place. RetryableError: log clean-up has removed it.
        """
        versions = range(self.version, self.checkpoint, -1)
        try:
            contents = log_store_of(self.uri).read_all(versions)
        except OSError as error:
            raise damaged(self.uri, f"a commit: {on_one_line(error)}") from error
        found = []
        for version, content in zip(versions, contents, strict=True):
            if content is None:
                raise self._gone(commit_file(version))
            found.append(_parsed(self.uri, version, content))
        return found

    def _gone(self, commit: str) -> Exception:
        """The error for a commit that is gone since this tail was read."""
        newer = LogTail.of(self.uri)
        if newer is None or newer.checkpoint < self.version:
            return damaged(self.uri, f"{commit} is gone")
        return RetryableError(
            what="the log of a table was cleaned while it was read",
            where=str(self.uri),
            expected=commit,
            found=f"a checkpoint of version {newer.checkpoint}, which stands for it",
            action="run the same again (or rerun the task)",
        )


def newest_infos(uri: LakeUri, version: int, limit: int | None = None) -> Iterator[JsonObject]:
    """The `commitInfo` of the newest commits up to a version, each with its version, newest first, as far back as log
    clean-up has left them. A commit may have none."""
    first = 0 if limit is None else max(0, version - limit + 1)
    for number in range(version, first - 1, -1):
        actions = _actions(uri, number)
        if actions is None:
            return
        yield from ({"version": number, **action["commitInfo"]} for action in actions if "commitInfo" in action)


def commit_id(uri: LakeUri, version: int) -> str | None:
    """The `txnId` of a commit, which no other one has; None: there is no such commit (any more), or it has none.

    Raises:
        TableDamaged: it is not readable.
    """
    return next((info.get("txnId") for info in newest_infos(uri, version, limit=1)), None)


def _actions(uri: LakeUri, version: int) -> list[JsonObject] | None:
    """The actions of a commit, without those about files; None if the commit is no longer there.

    Raises:
        TableDamaged: the file is empty, not JSON, or not readable.
    """
    name = commit_file(version)
    try:
        content = log_store_of(uri).read(version)
    except OSError as error:
        raise damaged(uri, f"{name}: {on_one_line(error)}") from error
    return None if content is None else _parsed(uri, version, content)


def _parsed(uri: LakeUri, version: int, content: bytes) -> list[JsonObject]:
    name, lines = commit_file(version), content.splitlines()
    try:
        json.loads(lines[-1])  # a file that is cut short ends in the middle of an action
        return [json.loads(line) for line in lines if _WANTED.match(line)]
    except (IndexError, ValueError) as error:
        raise damaged(uri, f"{name} is empty" if not lines else f"{name} is cut short") from error
