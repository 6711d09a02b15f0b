"""A version of a table, from its log: what a commit after it has to know (Delta protocol, "Action Reconciliation").

deltalake opens tables, too, but it does not hand out the actions as they stand in the log. A commit that gives a file a
deletion vector has to repeat its action, with every statistic as it was written.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Self

import pyarrow as pa
from deltalake import Schema

from include.lake.damage import damaged, on_one_line
from include.lake.log_store import LOG, CheckpointHint, Commit, Tail, checkpoint_file, checkpoint_of, commit_file
from include.lake.merge.deletion_vectors import vector_id
from include.lake.merge.unfit import NoLogError, UnfitError
from include.lake.stores import files_at, log_store_of
from include.lake.uri import LakeUri
from include.protocol.errors import TableDamaged
from include.protocol.json_data import JsonObject

FileKey = tuple[str, str | None]  # a file's path, as in the log, and its deletion vector's id
_TRIES_MAX = 5
_MANY = 20  # commits: while so many are read, others come. After fewer, one's own commit finds out who was faster
_COMMITS_MAX = 200  # since the checkpoint; a table with more has writers that make none
_OF_ADD = (
    *("path", "partitionValues", "size", "modificationTime", "dataChange", "tags", "stats"),
    *("deletionVector", "baseRowId", "defaultRowCommitVersion", "clusteringProvider"),
)
_OF_CHECKPOINT = ("txn", "metaData", "protocol", *(f"add.{name}" for name in _OF_ADD))
_OF_V2 = ("sidecar", "checkpointMetadata")  # columns that checkpoints of other kinds have, too, without a row


@dataclass
class Snapshot:
    """A version of a table. `brought_up` reads the commits since then into it."""

    uri: LakeUri
    version: int = -1
    stamp: str | None = None  # of that version, taken before it was read (`LogStore.stamp`); None: not known
    checkpoint: int | None = None  # the version of the checkpoint that it began with
    protocol: JsonObject = field(default_factory=dict)
    metadata: JsonObject = field(default_factory=dict)
    files: dict[FileKey, JsonObject] = field(default_factory=dict)  # their `add` actions
    markers: dict[str, int] = field(default_factory=dict)  # by appId

    @classmethod
    def of(cls, uri: LakeUri) -> Self:
        """The newest version.

        Raises:
            NoLogError: there is no table. UnfitError: the table has no checkpoint in one file, or too many commits
                since. TableDamaged: a file of the log is missing, cut short or not readable.
        """
        found = cls(uri)
        found._begin_anew()
        return found

    @classmethod
    def at(cls, uri: LakeUri, version: int) -> Self | None:
        """An earlier version; None if log clean-up has removed what it is read from, or there was no such version.

        Raises:
            UnfitError: that has no checkpoint in one file. TableDamaged: as `of`.
        """
        names = [file.name for file in files_at(uri).list(uri / LOG)]
        forms = {checkpoint_of(name) for name in names} - {None}
        before = [int(name[:20]) for name in names if ".checkpoint." in name and name[:20].isdigit()]
        found = cls(uri)
        if (newest := max((v for v in before if v <= version), default=None)) is not None:
            if newest not in forms:
                raise UnfitError("a checkpoint of another form than one file")
            for kind, action in _actions_of_checkpoint(uri, newest):
                found._take(kind, action)
            found.version = found.checkpoint = newest
        return found if found.brought_to(version) else None

    def brought_to(self, version: int) -> bool:
        """Reads the commits up to a version, and no later one. False if one of them is not there."""
        versions = range(self.version + 1, version + 1)
        for number, content in zip(versions, log_store_of(self.uri).read_all(versions), strict=True):
            if content is None:
                return False
            for action in actions_in(self.uri, number, content):
                for kind, value in action.items():
                    self._take(kind, value)
            self.version = number
        self.stamp = None
        return bool(self.metadata)

    @property
    def schema(self) -> pa.Schema:
        """The table's columns, as Arrow has them."""
        return pa.schema(Schema.from_json(self.metadata["schemaString"]).to_arrow())

    @property
    def column_names(self) -> list[str]:
        return [column["name"] for column in json.loads(self.metadata["schemaString"])["fields"]]

    def brought_up(self) -> bool:
        """Reads the commits since this version. Returns whether there were any. Raises as `of`.

        If the table has another commit of this version than the one that was read, somebody has brought it back from a
        copy, and others have written since. Then all is read anew.
        """
        before = self.version, self.stamp
        try:
            goes_on = self.stamp is not None and self._goes_on()
        except TableDamaged:  # or log clean-up has removed commits that nobody needs who begins anew
            goes_on = False
        if not goes_on:
            self._begin_anew()
        return (self.version, self.stamp) != before

    def _begin_anew(self) -> None:
        for _ in range(_TRIES_MAX):
            try:
                if self._begins():
                    break
            except TableDamaged:  # or a newer checkpoint has come, and log clean-up has removed what it stands for
                if _checkpoint(self.uri) == self.checkpoint:
                    raise
        else:
            raise UnfitError("a log that changes while it is read")
        if not self.protocol or not self.metadata:
            raise UnfitError("a log that does not begin")

    def _begins(self) -> bool:
        """Reads the newest checkpoint, and the commits since. False if what was read is no longer the table's."""
        log = log_store_of(self.uri)
        tail = log.tail()
        self.stamp, self.checkpoint = None, _checkpoint(self.uri) if tail is None else _named(tail)
        self.version = -1 if self.checkpoint is None else self.checkpoint
        self.protocol, self.metadata, self.files, self.markers = {}, {}, {}, {}
        if tail is not None:
            stamp = dict(tail.commits).get(tail.checkpoint)
        else:
            stamp = None if self.checkpoint is None else log.stamp(self.checkpoint)
        if self.checkpoint is not None:
            for kind, action in _actions_of_checkpoint(self.uri, self.checkpoint):
                self._take(kind, action)
        self.stamp = stamp
        return self._goes_on(tail.commits if tail is not None and log.is_tied else None)

    def _goes_on(self, told: list[Commit] | None = None) -> bool:
        """Reads the commits since this version. False if what was read before is no longer the table's. Args: told: by
        a look at the log that still holds; None: it looks."""
        log, before = log_store_of(self.uri), self.version
        while newer := self._newer(told):
            told = None
            contents = log.read_all([commit.version for commit in newer])
            for commit, content in zip(newer, contents, strict=True):
                if content is None:
                    return False
                for action in actions_in(self.uri, commit.version, content):
                    for kind, value in action.items():
                        self._take(kind, value)
                self.version, self.stamp = commit
            if self.version - before > _COMMITS_MAX:
                raise UnfitError("a log with many commits since its checkpoint")
            if log.is_tied and len(newer) < _MANY:
                break
        return newer is not None

    def _newer(self, told: list[Commit] | None) -> list[Commit] | None:
        """The commits after this version; None if the table has another commit of this version than was read."""
        found = log_store_of(self.uri).commits(max(0, self.version)) if told is None else told
        own = next((stamp for version, stamp in found if version == self.version), None)
        if own != self.stamp:
            return None
        newer = [commit for commit in found if commit.version > self.version]
        for version, commit in enumerate(newer, self.version + 1):
            if commit.version != version:
                raise damaged(self.uri, f"{commit_file(version)} is missing")
        return newer

    def _take(self, kind: str, action: JsonObject) -> None:
        match kind:
            case "add":
                self.files[file_key(action)] = action
            case "remove":
                self.files.pop(file_key(action), None)
            case "txn":
                self.markers[action["appId"]] = int(action["version"])
            case "metaData":
                self.metadata = action
            case "protocol":
                self.protocol = action


def file_key(action: JsonObject) -> FileKey:
    return action["path"], vector_id(action.get("deletionVector"))


def _named(tail: Tail) -> int | None:
    """The version of a log's newest checkpoint; None if the log begins with its first commit."""
    if tail.checkpoint >= 0:
        return tail.checkpoint
    if not tail.commits:
        raise NoLogError("no log")
    if tail.commits[0].version:
        raise UnfitError("a log without its first commits, and without a checkpoint that it names")
    return None


def _checkpoint(uri: LakeUri) -> int | None:
    """The same, by what is there now, whatever the log names."""
    log = log_store_of(uri)
    told = log.last_checkpoint()
    hint = CheckpointHint.of(told)
    if hint is None:  # it is not there, or another writer is just writing it
        names = [] if told is None else [file.name for file in files_at(uri).list(uri / LOG)]
        found = {of_one for name in names if (of_one := checkpoint_of(name)) is not None}
        others = {int(name[:20]) for name in names if ".checkpoint." in name and name[:20].isdigit()}
        newest = max(found, default=None)
        if max(others, default=-1) > max(found, default=-1):
            raise UnfitError("a checkpoint of another form than one file")
        if newest is None and not log.has(0):
            raise UnfitError("a log without its first commits, and without a checkpoint that it names")
        return newest
    if not hint.is_one_file:
        raise UnfitError("a checkpoint of another form than one file")
    if not log.has_checkpoint(hint.version):
        raise UnfitError("no checkpoint where its log names one")
    return hint.version


def _actions_of_checkpoint(uri: LakeUri, version: int) -> Iterator[tuple[str, JsonObject]]:
    try:
        table = log_store_of(uri).read_checkpoint(version, [*_OF_CHECKPOINT, *_OF_V2])
    except OSError as error:
        raise damaged(uri, f"{checkpoint_file(version)}: {on_one_line(error)}") from error
    for kind in table.column_names:  # most rows are of files that were removed, and have none of these
        actions = table[kind].drop_null()
        if len(actions) and kind in _OF_V2:
            raise UnfitError("a checkpoint of the second version")
        for action in actions.to_pylist(maps_as_pydicts="strict"):
            yield kind, {name: value for name, value in action.items() if value is not None}


def actions_in(uri: LakeUri, version: int, content: bytes) -> list[JsonObject]:
    """The actions of a commit. Raises TableDamaged: it is empty, or cut short."""
    try:
        actions = [json.loads(line) for line in content.splitlines()]
    except ValueError as error:
        raise damaged(uri, f"{commit_file(version)} is cut short") from error
    if not actions:  # a file system that lost power may leave such a file
        raise damaged(uri, f"{commit_file(version)} is empty")
    return actions
