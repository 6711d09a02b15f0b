"""Makes a new table of a version's files, which have been carried into its folder: what Delta calls a deep clone."""

from __future__ import annotations

import time
from collections.abc import Mapping

from include.lake.merge.frozen import began
from include.lake.merge.snapshot import Snapshot
from include.lake.operations import CLONED
from include.lake.uri import LakeUri


def clone(past: Snapshot, folder: LakeUri, id_: str, markers: Mapping[str, int], said: str) -> bool:
    """Makes the table. False if there is one, which stays as it is.

    Args:
        past: the version. folder: where the new table lies; it has all files of the version, under the same names.
            id_: its own. markers: its own, by appId. said: the commit's `userMetadata`.

    Raises:
        OSError: the store refuses.
    """
    metadata = {**past.metadata, "id": id_, "createdTime": time.time_ns() // 1_000_000}
    actions = [{"txn": {"appId": name, "version": number}} for name, number in markers.items()]
    actions += [{"add": {**file, "dataChange": True}} for file in past.files.values()]
    return began(folder, past.protocol, metadata, actions, operation=CLONED, said=said)
