"""Batches that are made up, for `lakemark sinks test`: what each holds, and how a process deals it to a class."""

from __future__ import annotations

import json
import os
import signal
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from include.delivery.contract import Delivery
from include.delivery.net_changes import given_changes
from include.delivery.user_class import Overtaken, UserBatch, UserClass, has_two_phases, prepare
from include.pipeline_file.sink_columns import SinkColumn
from include.protocol.progress import Progress
from include.protocol.two_phase import Prepared

State = dict[int, str]  # text by id
SIGNALS = {"killed once it was prepared": signal.SIGKILL, "stopped once it was prepared": signal.SIGSTOP}
_COLUMNS = (SinkColumn("id", ("id",), "BIGINT", True), SinkColumn("text", ("text",), "STRING", False))


@dataclass(frozen=True)
class Given:
    """A batch that is made up, and what the sink holds before and after it."""

    number: int
    written: State
    removed: tuple[int, ...]
    before: State
    is_snapshot: bool = False

    @property
    def after(self) -> State:
        kept = {} if self.is_snapshot else {key: text for key, text in self.before.items() if key not in self.removed}
        return {**kept, **self.written}

    @property
    def texts(self) -> tuple[str | None, str]:
        """What `progress` says before and after it."""
        return (None if self.number == 0 else _progress(self.number - 1)), _progress(self.number)

    def deliver(self, sink: UserClass, after: str | None, kind: type[UserBatch] = UserBatch, fault: str = "") -> None:
        """Deals it to an object of the class. Args: after: what the sink shall compare. kind: of the batch. fault: that
        befalls this process once the batch is prepared.

        Raises:
            Overtaken: the sink does not stand where it should.
        """
        written = pa.table({"id": [*self.written], "text": [*self.written.values()]}, pa.schema(_TYPES))
        removed = pa.table({"id": [*self.removed]}, pa.schema(_TYPES[:1]))
        with given_changes(written, removed, _COLUMNS) as changes:
            delivery = Delivery(None, _standing(self.number), changes, self.is_snapshot)
            batch = kind(("id",), after, self.is_snapshot, delivery)
            if not has_two_phases(sink):
                sink.deliver(batch, self.texts[1])
                return
            name = Prepared(self.number, uuid.uuid4().hex).name()
            prepare(sink, name, batch, self.texts[1])
            if fault in SIGNALS:
                os.kill(os.getpid(), SIGNALS[fault])
            if not sink.commit(name):
                raise Overtaken


_TYPES = [("id", pa.int64()), ("text", pa.string())]


class DeadlyBatch(UserBatch):
    """A batch whose process dies once its rows are read: with what the class has written of them, and without the end
    of its one step."""

    def rows(self) -> Iterator[pa.RecordBatch]:
        yield from super().rows()
        os.kill(os.getpid(), signal.SIGKILL)


def _progress(number: int) -> str:
    return json.dumps(_standing(number).to_json(), sort_keys=True)


def _standing(number: int) -> Progress:
    return Progress("test", number, 1, number)
