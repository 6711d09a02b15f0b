"""In which lake the pipelines of a lake live. Their ledgers say so (`PipelineMoved`), and in no other lake do they take
an event."""

from __future__ import annotations

from collections.abc import Iterator

from include.lake.lakes import COPIED, end_copy, forget_move, id_of, mark_again, marked, moved_to, noted, verify_whole
from include.lake.ledger import Ledger
from include.lake.log_store import LOG
from include.lake.stores import files_at
from include.lake.uri import LakeUri
from include.protocol.errors import TerminalError
from include.protocol.ledger_events import PipelineMoved
from include.settings import Settings

LEDGERS = "_lakemark/ledger"


def reopen(settings: Settings) -> int:
    """Lets the pipelines run in this lake again, though a copying has begun. Returns how many.

    Raises:
        TerminalError: the copying has ended, so they may run in the new lake already.
    """
    verify_whole(settings.lake)
    to = moved_to(settings.lake)
    found = None if to is None else noted(to / COPIED)
    if to is not None and found is not None and found["lake"] == marked(settings.lake):
        end = end_copy(to, found["copying"], is_whole=False)
        if end["is_whole"]:
            raise lives_in(settings.lake, to, end["at"])
    forget_move(settings.lake)  # first: from here on a copying begins anew
    here = marked(settings.lake)
    away = [ledger for ledger in ledgers_in(settings.lake) if home_of(ledger) != here]
    for ledger in away:
        move(ledger, here, settings.lake)
    return len(away)


def ledgers_in(lake: LakeUri) -> Iterator[Ledger]:
    """The ledgers of all pipelines that a lake has, or had."""
    yield from (Ledger(lake / LEDGERS / name) for name in tables_below(lake / LEDGERS))


def tables_below(folder: LakeUri) -> list[str]:
    """The tables below a folder, by their names there, in order."""
    found = (file.name.partition(f"/{LOG}/") for file in files_at(folder).list(folder))
    return sorted({table for table, is_log, _ in found if is_log})


def home_of(ledger: Ledger) -> str | None:
    """The id of the lake in which a pipeline lives; None: it has none yet, and has never moved."""
    moved = ledger.recent().moved
    return moved.lake if moved else id_of(ledger.lake)


def move(ledger: Ledger, lake: str, to: LakeUri) -> None:
    """Records where a pipeline lives from here on. Args: lake: that one's id. to: where it lies."""
    ledger.append(lambda state: [PipelineMoved(state.generation, lake, str(to))], moves=True)


def lives_in(lake: LakeUri, to: LakeUri, ended: str) -> TerminalError:
    """The error of a lake whose pipelines live in its copy. Args: ended: when that was whole."""
    return TerminalError(
        what="this lake was copied, and its pipelines live in the copy",
        where=str(lake),
        expected="a copying that has not ended",
        found=f"one that ended at {ended}",
        action=f"set LAKEMARK_LAKE={to}; to come back, `lakemark lake copy /an/empty/place` there",
    )


def mark(settings: Settings) -> str:
    """Writes the lake's mark again, where it was lost. Returns the lake's id.

    Raises:
        TerminalError: see `mark_again`.
    """
    moved = (ledger.recent().moved for ledger in ledgers_in(settings.lake))
    told = next((found.lake for found in moved if found and LakeUri(found.to) == settings.lake), None)
    return mark_again(settings.lake, settings.home, told)
