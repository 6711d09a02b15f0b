"""The pipelines under fire: between them, every kind of table, and every way in which one batch writes several."""

from __future__ import annotations

import random
from typing import Any

from include.installation.stack import Stack
from tests.soak.load import Expected
from tests.soak.sinks import outlets_of
from tests.soak.victim import PARTITIONS, Victim
from tests.support.lossy_store import LossyStore
from tests.support.sink_servers import PostgresServer
from tests.support.world import World

VICTIMS = 5
_AT_ONCE = 1e-9  # days
_BATCHES = 10  # as many rounds' records fit in one batch: what is read again is not cut into many


def victim_of(
    world: World,
    stack: Stack,
    store: LossyStore | None,
    number: int,
    chance: random.Random,
    records_per_round: int,
    postgres: PostgresServer,
) -> Victim:
    """A landing; a clustered table with an archive and a history beside it; one whose tombstones are purged; one whose
    keys move; a history. All but the last have a sink."""
    name = f"soak_{number}"
    source: dict[str, Any] = {"limits": {"records_per_batch_max": _BATCHES * records_per_round}}
    change: dict[str, Any] = {"delete_when": "op = 'd'"}
    target: dict[str, Any] = {}
    others: dict[str, Any] = {}
    match number:
        case 0:
            others = {"archive": f"lake://bronze/{name}", "merge_every": 3}
        case 1:
            target = {"cluster_by": ["id"], "history_table": f"lake://silver/{name}_history"}
            others = {"archive": f"lake://bronze/{name}"}
        case 2:
            others = {"maintenance": {"purge_tombstones_after_days": _AT_ONCE}}
        case 3:
            source["schema"] = "id BIGINT, old_id BIGINT, seq BIGINT, name STRING, kind STRING, op STRING"
            change["previous_keys"] = {"id": "old_id"}
            target = {"routes": [{"table": f"lake://silver/{name}_b", "when": "kind = 'b'"}]}
        case 4:
            change["history"] = "scd2"
    world.write_suite(name, [{"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "id"}}])
    outlets = outlets_of(number, name, world.settings.pipelines.parent, stack.broker.bootstrap_servers, postgres)
    if outlets:
        others["sinks"] = {name: {"begin": "start", **outlet.section} for name, outlet in outlets.items()}
    pipeline = world.pipeline(
        world.topic(PARTITIONS), name, source=source, change=change, target=target, quality={"suite": name}, **others
    )
    if outlets:
        made = world.lakemark("sinks", "create", name, "--run")
        assert made.returncode == 0, made.stderr
    return Victim(
        world,
        stack,
        pipeline,
        Expected(moves=number == 3, remembers=number in (1, 4)),
        chance=random.Random(chance.random()),
        keys=4 * records_per_round,
        forgets=number not in (2, 4),
        store=store,
        outlets=outlets,
    )
