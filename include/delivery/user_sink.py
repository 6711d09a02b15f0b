"""Delivers to a sink of the user's own. Whatever its class raises ends the delivery; the next asks for the progress."""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from include.delivery.contract import Delivery, Pending
from include.delivery.trouble import cannot_prepare, overtaken, refuses, unreachable
from include.delivery.user_class import (
    Overtaken,
    UserBatch,
    UserClass,
    UserSink,
    UserTwoPhaseSink,
    has_two_phases,
    made,
    prepare,
)
from include.fault_points import fault_point
from include.lake.damage import on_one_line
from include.pipeline_file import Pipeline
from include.pipeline_file.sink_columns import sink_columns
from include.protocol.errors import LakemarkError
from include.protocol.progress import Progress
from include.protocol.two_phase import Prepared
from include.settings import Settings

log = logging.getLogger(__name__)
_RECOVERY_SECONDS = 86_400.0  # for which a delivery's task is tried again


def taken(settings: Settings, pipeline: Pipeline, name: str) -> UserClassSink | UserTwoPhaseClassSink:
    """A sink of that kind. Raises TerminalError: there is no such class, or it cannot be made, or it lacks a phase."""
    section = pipeline.sinks[name]
    assert section.python is not None, "the caller knows its system"
    own = made(settings, section.python, pipeline.name, name)
    fault_point("sink.taken")
    keys = tuple(column.name for column in sink_columns(pipeline, section) if column.is_key)
    told = _Told(
        where=f"{pipeline.name}, sink {name} ({section.python.in_words})",
        keys=keys,
        skip=f"`lakemark sinks skip {pipeline.name} {name} --reason ...` leaves this delivery out",
    )
    if not has_two_phases(own):
        if section.mode == "two_phase":
            methods = "begin, write, prepare, commit, abort and recover"
            raise cannot_prepare(told.where, f"a class with {methods}", "one without begin", "write them")
        return UserClassSink(told, own)
    sink = UserTwoPhaseClassSink(told, own)
    if section.mode == "two_phase":
        sink.verify_prepares()
    return sink


@dataclass(frozen=True)
class _Told:
    """What is said of a sink, and how its class's errors become Lakemark's."""

    where: str
    keys: tuple[str, ...]
    skip: str  # what a person can do about a batch that the class refuses

    def batch(self, delivery: Delivery) -> UserBatch:
        after = None if delivery.after is None else _text(delivery.after)
        return UserBatch(self.keys, after, delivery.is_snapshot, delivery)

    @contextmanager
    def errors(self, expected: Progress | None = None) -> Iterator[None]:
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

    def close(self, own: UserClass) -> None:
        """Whatever has been delivered is there: what the class still says now fails nothing."""
        try:
            own.close()
        except Exception as error:
            log.warning("%s: its `close` has failed: %s: %s", self.where, type(error).__name__, on_one_line(error))


@dataclass
class UserClassSink:
    """See `WriteAheadSink`."""

    told: _Told
    own: UserSink = field(repr=False)

    def progress(self) -> Progress | None:
        with self.told.errors():
            return _progress(self.own.progress())

    def deliver(self, delivery: Delivery) -> int:
        with self.told.errors(delivery.after):
            self.own.deliver(self.told.batch(delivery), _text(delivery.now))
        fault_point("sink.committed")
        return _rows(delivery)

    def close(self) -> None:
        self.told.close(self.own)


@dataclass
class UserTwoPhaseClassSink:
    """See `TwoPhaseSink`."""

    told: _Told
    own: UserTwoPhaseSink = field(repr=False)

    def progress(self) -> Progress | None:
        with self.told.errors():
            return _progress(self.own.progress())

    def deliver(self, delivery: Delivery) -> int:
        """In two steps, too. Its commit has landed, so one that is found prepared later may as well be rolled back, and
        delivered again."""
        prepared = Prepared.that_follows(delivery.now.version, uuid.uuid4().hex[:16])
        rows = self.prepare(delivery, prepared)
        if not self.end(prepared, commits=True):
            raise overtaken(self.told.where, delivery.after, None)
        fault_point("sink.committed")
        return rows

    def verify_prepares(self) -> None:
        keeps: float | None = getattr(self.own, "keeps_prepared_seconds", None)
        if keeps is not None and keeps < _RECOVERY_SECONDS:
            raise cannot_prepare(
                self.told.where,
                f"a system that keeps what is prepared for the {_RECOVERY_SECONDS:,.0f} s that a recovery may take",
                f"keeps_prepared_seconds = {keeps:,.0f}",
                "let the system keep them longer",
            )

    def prepare(self, delivery: Delivery, prepared: Prepared) -> int:
        with self.told.errors(delivery.after):
            prepare(self.own, prepared.name(), self.told.batch(delivery), _text(delivery.now))
        return _rows(delivery)

    def end(self, prepared: Prepared, commits: bool) -> bool:
        with self.told.errors():
            return self.own.commit(prepared.name()) if commits else self.own.abort(prepared.name())

    def pending(self) -> list[Pending]:
        with self.told.errors():
            named = [(name, Prepared.named(name)) for name in self.own.recover()]
        return [Pending(prepared, name) for name, prepared in named if prepared is not None]

    def close(self) -> None:
        self.told.close(self.own)


def _progress(text: str | None) -> Progress | None:
    return None if text is None else Progress.from_json(json.loads(text))


def _text(progress: Progress) -> str:
    return json.dumps(progress.to_json(), sort_keys=True)


def _rows(delivery: Delivery) -> int:
    return 0 if delivery.changes is None else delivery.changes.written + delivery.changes.removed
