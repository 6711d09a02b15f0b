"""The version that a table before the point is made anew from. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from include.protocol.batch import BatchKey
from include.protocol.errors import TerminalError
from include.protocol.participants import NOWHERE, Position, Where


def base_of(chain: Position | None, live: Iterable[tuple[int, BatchKey]], batch: BatchKey, where: Where) -> int | None:
    """The version that a Replace starts from; None: there was no table, so it starts from nothing.

    It is the chain's version, moved forward over all commits up to the first one of a live batch. What maintenance, a
    chunk or another writer did there stays.

    Args:
        chain: as for `decide`. live: the commits of live batches in the table's log, oldest first, with their versions.
        batch: the one that is about to land. where: names the table in an error.

    Raises:
        TerminalError: the log no longer reaches back to the chain.
    """
    after = (chain or NOWHERE).since_version
    first = next((v for v, key in live if v > after and (chain is not None or key == batch)), None)
    if first is None:
        raise TerminalError(
            what="a table's log no longer tells what its last batches did",
            where=str(where),
            expected=f"the commits after version {after}",
            found="none of a batch",
            action="move the table's folder away, and "
            f"`lakemark reset {where.pipeline} --from earliest --reason ...` fills a new one from Kafka; or, "
            "to go on with the table as it is, with rows of a batch that may never have landed, "
            f"`lakemark reset {where.pipeline} --accept {where.table} --reason ...`",
        )
    return first - 1 if first > 0 else None
