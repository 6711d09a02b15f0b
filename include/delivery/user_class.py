"""A sink of the user's own: a class in a file of theirs, and what it gets and promises.

See docs/sinks.md, "A sink of your own".
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from include.delivery.contract import Delivery
from include.fault_points import fault_point
from include.lake.damage import on_one_line
from include.pipeline_file.sinks import UserClass as PlaceOfClass
from include.protocol.errors import TerminalError
from include.settings import Settings

if TYPE_CHECKING:
    from typing_extensions import TypeIs

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
    """What a user's class implements. It is made with the `options` of its section, the pipeline's name and the
    sink's."""

    def progress(self) -> str | None:
        """The text that came with the last batch that the sink has; None: it has none. If the sink can fence who
        delivered before, it does so first."""

    def deliver(self, batch: UserBatch, progress: str) -> None:
        """Writes a batch, and keeps the text, in one step. If the sink's own text is not `batch.after`, it changes
        nothing, and raises `Overtaken`."""

    def close(self) -> None:
        """Lets it go."""


class UserTwoPhaseSink(Protocol):
    """What a user's class implements whose transactions can be prepared. Whatever it has prepared, it keeps until
    somebody ends it, whoever dies meanwhile.

    A class may say how long its system keeps a prepared transaction: an attribute `keeps_prepared_seconds`.
    """

    def progress(self) -> str | None:
        """As `UserSink.progress`."""

    def begin(self, name: str) -> object:
        """A transaction of its own; nobody else uses the name."""

    def write(self, transaction: Any, batch: UserBatch) -> None:  # Any: what `begin` has returned
        """Writes a batch into the transaction, where nobody sees it. Raises `Overtaken`, or lets `commit` find it: the
        sink's own text is not `batch.after`."""

    def prepare(self, transaction: Any, progress: str) -> None:  # Any: as above
        """From now on the transaction, with the text, outlives this process, and waits for its end."""

    def commit(self, name: str) -> bool:
        """Makes a prepared transaction take effect, rows and text in one step, if the sink's own text is still its
        batch's `after`. False if it is not, or if there is no such transaction: then nothing changes. One that has
        taken effect may be committed again."""

    def abort(self, name: str) -> bool:
        """Removes what a transaction has left, prepared or not. False if there was nothing."""

    def recover(self) -> list[str]:
        """The names of the transactions that are prepared and have not ended."""

    def close(self) -> None:
        """Lets the sink go."""


UserClass = UserSink | UserTwoPhaseSink


def has_two_phases(own: UserClass) -> TypeIs[UserTwoPhaseSink]:
    """Whether a class is of the second kind."""
    return hasattr(own, "begin")


def made(settings: Settings, place: PlaceOfClass, pipeline: str, sink: str) -> UserClass:
    """An object of a user's class. Raises TerminalError: there is no such class, or it cannot be made."""
    where = f"{pipeline}, sink {sink} ({place.in_words})"
    makes = _class_in(settings.sinks / place.file, place.class_, where)
    try:
        return makes(dict(place.options), pipeline, sink)
    except Exception as error:
        expected = f"{place.class_}(options, pipeline, sink)"
        raise _unfit(where, expected, f"{type(error).__name__}: {error}") from error


def prepare(own: UserTwoPhaseSink, name: str, batch: UserBatch, progress: str) -> None:
    """Prepares a batch as a transaction of that name. If that fails, nothing of it is left, as far as the class can
    tell."""
    transaction = own.begin(name)
    try:
        own.write(transaction, batch)
        fault_point("sink.written")
        own.prepare(transaction, progress)
    except BaseException:
        own.abort(name)
        raise


class _Makes(Protocol):
    def __call__(self, options: Mapping[str, Value], pipeline: str, sink: str) -> UserClass: ...


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
