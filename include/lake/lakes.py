"""A lake as a whole: whether its store can keep one, and whether it is still the same lake.

A lake on an object store has a mark at its root, `_lakemark/lake.json`. Two installations that share a lake find the
same mark. A wrong address, or a bucket that was made anew, has another one or none.
"""

from __future__ import annotations

import json
import os
import uuid
from contextlib import suppress
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path

from include.lake.s3.connection import address
from include.lake.s3.objects import Place
from include.lake.s3.probe import verify_decides
from include.lake.stores import files_at
from include.lake.uri import LakeUri
from include.protocol.errors import StoreRefuses, TerminalError
from include.protocol.json_data import JsonObject

MARK = "_lakemark/lake.json"
MOVED = "_lakemark/moved.json"  # in a lake whose pipelines live in another one: where
COPIED = "_lakemark/copy.json"  # in a copy: of which lake, by which copying, and which tables are there
COPYINGS = "_lakemark/copyings"  # in a copy, by the copying's id: how it ended
_KNOWN = "lakes.json"  # in the home: the marks that this installation has seen, by the lakes' URIs
_whole: set[LakeUri] = set()  # lakes that are no copy, or one that has ended: that does not change
_SET_IT = "set LAKEMARK_LAKE where Airflow's workers and the command get their environment"


def verify_lake(lake: LakeUri, home: Path) -> None:
    """Checks a lake before anything is planned or written there. It asks the store a lot once, and then one request.

    Raises:
        TerminalError: its store cannot keep a lake, or it is another lake than the one that this home has used.
    """
    if lake.scheme != "s3":
        return
    mark, known = noted(lake / MARK), _known(home).get(str(lake))
    if known is not None:
        _verify_is(mark, known, lake, home)
    if known is not None and known["address"] == address():
        return
    if mark is None:
        verify_apart(lake)
    verify_decides(Place.of(lake / "_lakemark/probe"))
    if mark is None:
        mark = _made(lake)
    _remember(home, lake, mark)


def verify_same(lake: LakeUri, home: Path) -> None:
    """Checks, by one request, that a lake is the one that this home has used; a lake that it has not used yet is good.

    Raises:
        TerminalError: it is another one, or it is gone. OSError: see `Files`.
    """
    if lake.scheme == "s3" and (known := _known(home).get(str(lake))) is not None:
        _verify_is(noted(lake / MARK), known, lake, home)


def verify_lives(lake: LakeUri, home: Path) -> None:
    """Checks that pipelines live in a lake: for whoever works on them.

    Raises:
        TerminalError: they live in another one, or this is a copy that is not whole yet; see `verify_same`, too.
        OSError: see `Files`.
    """
    verify_same(lake, home)
    if (elsewhere := moved_to(lake)) is not None:
        raise lives_elsewhere(lake, str(elsewhere))
    verify_whole(lake)


def _verify_is(mark: JsonObject | None, known: JsonObject, lake: LakeUri, home: Path) -> None:
    if mark is None or mark["lake"] != known["lake"]:
        raise _is_another(lake, home, "none" if mark is None else f"another one, made {mark['made']}")


def id_of(lake: LakeUri) -> str | None:
    """The id in a lake's mark; None if it has none, as a local lake that was never copied. OSError: see `Files`."""
    mark = noted(lake / MARK)
    return None if mark is None else str(mark["lake"])


def marked(lake: LakeUri) -> str:
    """The id in a lake's mark, which is made if there is none. OSError: see `Files`."""
    return id_of(lake) or str(_made(lake)["lake"])


def moved_to(lake: LakeUri) -> LakeUri | None:
    """The lake in which this one's pipelines live; None: here. OSError: see `Files`."""
    note = noted(lake / MOVED)
    return None if note is None else LakeUri(note["to"])


def copy_ended(lake: LakeUri) -> str | None:
    """When the copying ended that has made a lake; None: it has not, or there was none. OSError: see `Files`."""
    note = noted(lake / COPIED)
    end = None if note is None else end_of_copy(lake, note["copying"])
    return end["at"] if end is not None and end["is_whole"] else None


def end_of_copy(lake: LakeUri, copying: str) -> JsonObject | None:
    """How a copying has ended: is_whole (else somebody has taken it back), at; None: it has not. OSError: see
    `Files`."""
    return noted(lake / COPYINGS / f"{copying}.json")


def end_copy(lake: LakeUri, copying: str, is_whole: bool) -> JsonObject:
    """Ends a copying, and returns how it has ended: of two who end it at once, one is right. OSError: see `Files`.

    Args:
        is_whole: the copy is; else it is taken back.
    """
    file = lake / COPYINGS / f"{copying}.json"
    note_first(file, {"is_whole": is_whole, "at": datetime.now(UTC).isoformat(timespec="seconds")})
    end = noted(file)
    assert end is not None, "it was made a moment ago"
    return end


def verify_whole(lake: LakeUri) -> None:
    """Raises TerminalError: a copying into this lake has not ended. OSError: see `Files`."""
    if lake in _whole:
        return
    note = noted(lake / COPIED)
    if note is not None and copy_ended(lake) is None:
        raise TerminalError(
            what="this lake is a copy that is not whole yet",
            where=str(lake),
            expected="a copying that has ended",
            found=f"{len(note['tables'])} tables of {note['from']}",
            action=f"`LAKEMARK_LAKE={note['from']} lakemark lake copy {lake}` ends it; or "
            f"`LAKEMARK_LAKE={note['from']} lakemark lake reopen` lets the pipelines run there again",
        )
    _whole.add(lake)


def note_move(lake: LakeUri, to: LakeUri) -> None:
    """Notes that new pipelines, too, belong into another lake. OSError: see `Files`."""
    note(lake / MOVED, {"to": str(to)})


def forget_move(lake: LakeUri) -> None:
    """Takes that back. OSError: see `Files`."""
    files_at(lake).remove(lake / MOVED)


def note(file: LakeUri, said: JsonObject) -> None:
    """Writes a note, or another one in its place. OSError: see `Files`."""
    files_at(file).write(file, BytesIO(json.dumps(said, indent=1).encode()))


def note_first(file: LakeUri, said: JsonObject) -> bool:
    """Writes a note where there is none. False if there is one, which stays as it is. OSError: see `Files`."""
    files_at(file).make_folder(file.parent)
    return files_at(file).publish(file, json.dumps(said).encode())


def noted(file: LakeUri) -> JsonObject | None:
    """What a note in a lake says; None if there is none. OSError: see `Files`."""
    try:
        with files_at(file).open(file) as content:
            found: JsonObject = json.loads(content.read())
    except FileNotFoundError:
        return None
    return found


def _made(lake: LakeUri) -> JsonObject:
    mark = {"lake": str(uuid.uuid4()), "made": datetime.now(UTC).isoformat(timespec="seconds")}
    note_first(lake / MARK, mark)
    made = noted(lake / MARK)  # another process may have been faster
    assert made is not None, "it was made a moment ago"
    return made


def verify_apart(lake: LakeUri) -> None:
    """Checks that a new lake lies in no other one that has a mark, and none in it: each would remove the other's files.

    Raises:
        TerminalError: one does. OSError: see `Files`.
    """
    above = lake
    while above.parent != above:
        above = above.parent
        with suppress(StoreRefuses):  # what the login may not read there is none of its business
            if id_of(above) is not None:
                raise _overlaps(lake, above)
    for file in files_at(lake).list(lake):
        if file.name.endswith(f"/{MARK}"):
            raise _overlaps(lake, lake / file.name.removesuffix(f"/{MARK}"))


def _overlaps(lake: LakeUri, other: LakeUri) -> TerminalError:
    return TerminalError(
        what="a lake lies in another one",
        where=f"LAKEMARK_LAKE={lake}",
        expected="a prefix that is in no other lake, and has no other lake in it",
        found=f"a lake in {other}",
        action=f"choose another prefix, or use that lake: {_SET_IT}",
    )


def lives_elsewhere(lake: LakeUri, to: str) -> TerminalError:
    """The error of a lake that its pipelines have left."""
    return TerminalError(
        what="this lake's pipelines live in another lake now",
        where=str(lake),
        expected=f"LAKEMARK_LAKE={to}",
        found=f"LAKEMARK_LAKE={lake}",
        action=f"set LAKEMARK_LAKE={to} where Airflow's workers and the command get their environment, then clear the "
        "task; while the copying has not ended, `lakemark lake reopen` takes it back",
    )


def _is_another(lake: LakeUri, home: Path, found: str) -> TerminalError:
    return TerminalError(
        what="this is not the lake that this installation has used so far",
        where=f"{lake} at {address()}",
        expected=f"the lake whose mark is in {home / _KNOWN}",
        found=found,
        action="correct AWS_ENDPOINT_URL_S3 or LAKEMARK_LAKE, or bring the lake back; if only its mark was lost, "
        f"`lakemark lake mark` writes it again; if another lake is meant, remove this one from {home / _KNOWN}",
    )


def mark_again(lake: LakeUri, home: Path, told: str | None) -> str:
    """Writes a lake's mark again, where it was lost. Returns the lake's id.

    Args:
        told: the id, if something in the lake tells it; else this installation may know it.

    Raises:
        TerminalError: there is a mark, or nobody knows the id. OSError: see `Files`.
    """
    known = told or _known(home).get(str(lake), {}).get("lake")
    found = id_of(lake)
    if known is None or found is not None:
        raise TerminalError(
            what="the lake's mark cannot be written again",
            where=str(lake / MARK),
            expected="no mark, and an id that this installation or a ledger knows",
            found="no id" if found is None else f"the mark {found}",
            action="nothing, if the pipelines run; else bring the lake back from a copy",
        )
    note_first(lake / MARK, {"lake": known, "made": "again"})
    return str(known)


def _known(home: Path) -> dict[str, JsonObject]:
    try:
        known: dict[str, JsonObject] = json.loads((home / _KNOWN).read_text())
    except (FileNotFoundError, ValueError):  # a home that was made anew looks again
        return {}
    return known


def _remember(home: Path, lake: LakeUri, mark: JsonObject) -> None:
    home.mkdir(parents=True, exist_ok=True)
    scratch = home / f"{_KNOWN}.{os.getpid()}.tmp"
    scratch.write_text(json.dumps({**_known(home), str(lake): {"lake": mark["lake"], "address": address()}}, indent=1))
    scratch.replace(home / _KNOWN)
