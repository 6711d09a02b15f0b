"""A sink of the user's own: a class in a file of theirs.

Whatever it raises ends the delivery, and the next one begins with `progress` again. See docs/sinks.md, "A sink of your
own", for what such a class promises.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from include.delivery.contract import Delivery
from include.delivery.trouble import overtaken, refuses, unreachable
from include.fault_points import fault_point
from include.lake.damage import on_one_line
from include.pipeline_file import Pipeline
from include.pipeline_file.sink_columns import sink_columns
from include.pipeline_file.sinks import UserClass
from include.protocol.errors import LakemarkError, TerminalError
from include.protocol.progress import Progress
from include.settings import Settings

Value = str | int | float | bool | None


class Overtaken(Exception):
    """What a class raises whose sink does not stand where the batch expects it."""


@dataclass(frozen=True)
class UserBatch:
    """What a class gets to write.

    Args:
        keys: the names of the key's columns. after: the text that `progress` has to say now; None: none. is_snapshot:
            the rows are all there are: whatever else the sink has goes.
    """

    keys: tuple[str, ...]
    after: str | None
    is_snapshot: bool
    _delivery: Delivery = field(repr=False)

    def rows(self) -> Iterator[pa.RecordBatch]:
        """The rows to write, each whole, in place of the one with its key."""
        return self._delivery.changes.rows() if self._delivery.changes is not None else iter(())

    def removed(self) -> Iterator[pa.RecordBatch]:
        """The keys of rows to remove."""
        return self._delivery.changes.keys() if self._delivery.changes is not None else iter(())


class UserSink(Protocol):
    """What a user's class implements. It is made anew for each call of `deliver`s, with the `options` of its section,
    the pipeline's name and the sink's."""

    def progress(self) -> str | None:
        """The text that came with the last batch that the sink has; None: it has none. If the sink can fence who
        delivered before, it does so first."""

    def deliver(self, batch: UserBatch, progress: str) -> None:
        """Writes a batch, and keeps the text, in one step. If the sink's own text is not `batch.after`, it changes
        nothing, and raises `Overtaken`."""

    def close(self) -> None:
        """Lets it go."""


@dataclass
class UserClassSink:
    """See `WriteAheadSink`."""

    where: str
    keys: tuple[str, ...]
    skip: str  # what a person can do about a batch that the class refuses
    own: UserSink = field(repr=False)

    @classmethod
    def taken(cls, settings: Settings, pipeline: Pipeline, name: str) -> UserClassSink:
        """An object of the class. Raises TerminalError: there is no such class, or it cannot be made."""
        place = pipeline.sinks[name].python
        assert place is not None, "the caller knows its system"
        where = f"{pipeline.name}, sink {name} ({place.in_words})"
        skip = f"`lakemark sinks skip {pipeline.name} {name} --reason ...` leaves this delivery out"
        path = settings.sinks / place.file
        made = _class_in(path, place.class_, where)
        try:
            own = made(dict(place.options), pipeline.name, name)
        except Exception as error:
            raise _unfit(
                where, f"{place.class_}(options, pipeline, sink)", f"{type(error).__name__}: {error}"
            ) from error
        fault_point("sink.taken")
        columns = sink_columns(pipeline, pipeline.sinks[name])
        return cls(where, tuple(column.name for column in columns if column.is_key), skip, own)

    def progress(self) -> Progress | None:
        with self._told():
            found = self.own.progress()
        return None if found is None else Progress.from_json(json.loads(found))

    def deliver(self, delivery: Delivery) -> int:
        changes = delivery.changes
        batch = UserBatch(self.keys, _text(delivery.after), delivery.is_snapshot, delivery)
        now = _text(delivery.now)
        assert now is not None, "a delivery leads somewhere"
        with self._told(delivery.after):
            self.own.deliver(batch, now)
        fault_point("sink.committed")
        return 0 if changes is None else changes.written + changes.removed

    def close(self) -> None:
        self.own.close()

    @contextmanager
    def _told(self, expected: Progress | None = None) -> Iterator[None]:
        try:
            yield
        except LakemarkError:
            raise
        except Overtaken as error:
            raise overtaken(self.where, expected, None) from error
        except (OSError, TimeoutError) as error:
            raise unreachable(self.where, on_one_line(error)) from error
        except Exception as error:
            found = type(error).__name__
            action = f"correct the class, or what it writes to; {self.skip}"
            raise refuses(self.where, found, action, evidence=on_one_line(error)) from error


def made(settings: Settings, place: UserClass, pipeline: str, sink: str) -> UserSink:
    """An object of a user's class. Raises TerminalError: there is no such class, or it cannot be made."""
    where = f"{pipeline}, sink {sink} ({place.in_words})"
    makes = _class_in(settings.sinks / place.file, place.class_, where)
    try:
        return makes(dict(place.options), pipeline, sink)
    except Exception as error:
        expected = f"{place.class_}(options, pipeline, sink)"
        raise _unfit(where, expected, f"{type(error).__name__}: {error}") from error


def _text(progress: Progress | None) -> str | None:
    return None if progress is None else json.dumps(progress.to_json(), sort_keys=True)


class _Makes(Protocol):
    def __call__(self, options: Mapping[str, Value], pipeline: str, sink: str) -> UserSink: ...


def _class_in(path: Path, name: str, where: str) -> _Makes:
    spec = importlib.util.spec_from_file_location(f"lakemark_sink_{path.stem}", path)
    assert spec is not None and spec.loader is not None, "it is a file of Python"
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        found: _Makes = getattr(module, name)
    except FileNotFoundError as error:
        raise _unfit(where, f"the file {path}", "none") from error
    except AttributeError as error:
        raise _unfit(where, f"the class {name} in {path}", on_one_line(error)) from error
    except Exception as error:  # whatever a user's file does
        raise _unfit(where, f"Python in {path}", f"{type(error).__name__}: {error}") from error
    return found


def _unfit(where: str, expected: str, found: str) -> TerminalError:
    return TerminalError(
        what="the class of a sink cannot be used",
        where=where,
        expected=expected,
        found=found,
        action="correct the file or the section (docs/sinks.md), then deliver again",
    )
