"""Makes pipeline files that nobody would write on purpose, from a seed: bytes, types, tags, anchors, places, and things
that are no files."""

from __future__ import annotations

import os
import random
import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from include.pipeline_file.users_file import SIZE_MAX

FULL: dict[str, Any] = {
    "name": "hostile",
    "description": "All fields.",
    "schedule": {"on_data": {"records": 10, "seconds": 5}},
    "stale_after_minutes": 15,
    "source": {
        "bootstrap_servers": "${KAFKA_BROKERS:-k:9092}",
        "security": {
            "protocol": "SASL_SSL",
            "mechanism": "PLAIN",
            "username": "u",
            "password": "${KAFKA_PW}",
            "ca_file": "/etc/ca.pem",
        },
        "topics": ["orders", "more"],
        "format": "json",
        "key": "json",
        "registry": {"url": "http://registry:8081"},
        "metadata": {"sent": "timestamp"},
        "schema": "id BIGINT, at TIMESTAMP, op STRING, tags ARRAY<STRUCT<name: STRING, n: DECIMAL(5, 2)>>",
        "filter": "op <> 'x' AND id > 0",
        "limits": {"records_per_batch_max": 1000, "seconds_per_batch": 60},
    },
    "change": {"keys": ["id"], "order_by": ["at"], "delete_when": "op = 'd'", "history": "scd1"},
    "target": {
        "table": "lake://silver/hostile",
        "cluster_by": ["id"],
        "routes": [{"table": "lake://a/b", "when": "id > 5"}],
    },
    "archive": "lake://bronze/hostile",
    "merge_every": 5,
    "quality": {"suite": "hostile", "on_fail": "warn", "table": {"suite": "hostile", "schedule": "0 6 * * *"}},
    "maintenance": {"small_files_max": 20, "vacuum_after_hours": 168},
    "checkpoints": {"retain": 20},
}
Make = Callable[[random.Random, Path], None]

# Texts in YAML itself, for any place.
# One value after the other, with `⏎` between them.
_PLAIN = r"""
2026-02-31 ⏎ 2026-02-20 ⏎ 0000-00-00 ⏎ 12:30:45 ⏎ 1:99:99 ⏎ .nan ⏎ -.inf ⏎ 1e999 ⏎ 0o777
0x7fffffffffffffffff ⏎ ~ ⏎ yes ⏎ off ⏎ '' ⏎ ' ' ⏎ [] ⏎ {} ⏎ [[]] ⏎ {{}: 1} ⏎ {1: 2, ~: 3} ⏎ - - - a ⏎ &a [*a]
&a {b: *a} ⏎ *nothing ⏎ !!str 5 ⏎ !!int x ⏎ !!float x ⏎ !!bool maybe ⏎ !!null x ⏎ !!binary '=='
!!binary aGk= ⏎ !!set {a, b} ⏎ !!omap [a: 1] ⏎ !!pairs [a: 1, a: 2] ⏎ !!timestamp 2026-13-01
!!python/object/apply:os.system [id] ⏎ !own x ⏎ ${KAFKA_BROKERS} ⏎ ${HOME} ⏎ ${KAFKA_PW:-${HOME}} ⏎ ${
$${HOME} ⏎ %YAML 1.2 ⏎ --- ⏎ ... ⏎ @x ⏎ `x` ⏎ a: b: c ⏎ 'it''s ⏎ " ⏎ {a: &x 1, b: *x, <<: [*x]} ⏎ <<: 1
{<<: {a: 1}, <<: {b: 2}}
"""
_VALUES = [
    *re.split(r" ⏎ |\n", _PLAIN.strip("\n")),
    *("? [a, b]\n: c", "|\n text", ">-\n a\n\n b", "\\x00", '"\\0"', '"\\ud800"', "'\u202e\x00'", "\ufeff"),
    *("\u2028", "🜁"),
]


def _long_texts(dice: random.Random) -> str:
    """What costs a parser much, if it costs anything."""
    n = dice.choice([10, 100, 3_000, 9_900, 99_000, 300_000])
    return dice.choice(
        [
            "(" * n + "id" + ")" * n,
            "NOT " * n + "id",
            " AND ".join(["id = 1"] * (n // 8)),
            " + ".join(["id"] * (n // 5)),
            "-" * n,
            "CASE WHEN id = 1 THEN " * (n // 20) + "1",
            "a" * n,
            "a." * n + "b",
            "`" * n,
            "'" * n,
            "/*" * n,
            "ARRAY<" * (n // 6) + "INT" + ">" * (n // 6),
            ", ".join(f"c{k} INT" for k in range(n // 8)),
            ", ".join(["c INT"] * (n // 7)),
            "s STRUCT<" + ", ".join(f"c{k}: INT" for k in range(n // 8)) + ">",
            "x MAP<STRING, " * (n // 13) + "INT" + ">" * (n // 13),
            "<" * n,
            ",".join(["k:9092"] * (n // 7)),
            "a-" * n + "!",
            "lake://" + "a/" * n,
            "* " * n,
            ",".join(map(str, range(60))) + " * * * *",
            "*/1 * * * " + "1," * n,
            "(a+)+$" * (n // 6),
            "${KAFKA_BROKERS}" * (n // 16),
            "${" * n,
            "http://" + "a.-" * n,
            "x -> " * (n // 5),
            "exists(a, x -> " * (n // 15) + "1" + ")" * (n // 15),
            "SELECT " * (n // 7),
            "\u0130" * n,
            " " * n,
            "\t\n" * n,
        ]
    )


def _places(data: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [at] if at else []
    parts = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for name, part in parts:
        found += _places(part, (*at, name))
    return found


_PLACES = _places(FULL)


def _put(data: Any, place: tuple[Any, ...], value: Any) -> None:
    for part in place[:-1]:
        data = data[part]
    data[place[-1]] = value


def _full() -> Any:
    return yaml.safe_load(yaml.safe_dump(FULL))


def _bytes(dice: random.Random, path: Path) -> None:
    path.write_bytes(dice.randbytes(dice.choice([0, 1, 10, 1_000, 100_000])))


def _harmed(dice: random.Random, path: Path) -> None:
    text = bytearray(yaml.safe_dump(FULL).encode())
    for _ in range(dice.randint(1, 8)):
        at, length = dice.randrange(len(text)), dice.randint(0, 30)
        part = bytes(text[at : at + length])
        text[at : at + length] = dice.choice(
            [b"", part * 2, dice.randbytes(3), b"\n", b": ", b"&a ", b"*a", b"[", b"!!", part.upper()]
        )
    path.write_bytes(bytes(text))


def _other_values(dice: random.Random, path: Path) -> None:
    data, values = _full(), {}
    for n in range(dice.randint(1, 3)):
        values[f"PUT{n}HERE"] = dice.choice(_VALUES)
        place = dice.choice(_PLACES)
        try:
            _put(data, place, f"PUT{n}HERE")
        except (TypeError, KeyError, IndexError):
            continue  # inside of what has just been put
    text = yaml.safe_dump(data)
    for name, value in values.items():
        text = text.replace(name, value)
    path.write_text(text, errors="surrogatepass")


def _other_types(dice: random.Random, path: Path) -> None:
    data = _full()
    values: list[Any] = [
        None,
        True,
        0,
        -1,
        1.5,
        10**30,
        [],
        {},
        [None],
        {"a": None},
        [[1]],
        "x",
        ["x"] * 5_000,
        {f"k{n}": n for n in range(5_000)},
    ]
    for _ in range(dice.randint(1, 3)):
        try:
            _put(data, dice.choice(_PLACES), dice.choice(values))
        except (TypeError, KeyError, IndexError):
            continue
    path.write_text(yaml.safe_dump(data))


def _costly(dice: random.Random, path: Path) -> None:
    data = _full()
    _put(data, dice.choice([place for place in _PLACES if len(place) > 1 or dice.random() < 0.2]), _long_texts(dice))
    path.write_text(yaml.safe_dump(data, width=10**9, allow_unicode=True))


def _without_fields(dice: random.Random, path: Path) -> None:
    data = _full()
    for place in dice.sample(_PLACES, 3):
        at = data
        try:
            for part in place[:-1]:
                at = at[part]
            del at[place[-1]]
        except (TypeError, KeyError, IndexError):
            continue
    path.write_text(yaml.safe_dump(data))


def _deep(dice: random.Random, path: Path) -> None:
    n = dice.choice([40, 60, 3_000, 100_000])
    opened, closed = dice.choice([("[", "]"), ("{a: ", "}"), ("- ", ""), ("? ", ""), ("&a [", "]"), ("!!x [", "]")])
    path.write_text(f"name: hostile\ndescription: {opened * n}{closed * n}")


def _aliases(dice: random.Random, path: Path) -> None:
    n = dice.choice([3, 10, 100])
    path.write_text("".join(f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * n if k else ['x'])}]\n" for k in range(n)))


def _no_file(dice: random.Random, path: Path) -> None:
    match dice.randrange(7):
        case 0:
            os.mkfifo(path)
        case 1:
            path.mkdir()
        case 2:
            path.symlink_to(
                dice.choice(["/etc/passwd", "/dev/zero", "/", "..", "hostile.yaml", "nothing", "/proc/self/mem"])
            )
        case 3:
            with path.open("wb") as file:
                file.truncate(dice.choice([SIZE_MAX + 1, 10**11]))
        case 4:
            with socket.socket(socket.AF_UNIX) as held:
                held.bind(str(path))
        case 5:
            path.write_text(f"name: hostile\ndescription: {'x' * SIZE_MAX}")
        case 6:
            path.write_bytes(yaml.safe_dump(FULL).encode(dice.choice(["utf-16", "utf-32", "utf-8-sig", "cp037"])))


KINDS: tuple[Make, ...] = (
    *(_bytes, _harmed, _harmed, _other_values, _other_values, _other_values, _other_types, _other_types),
    *(_costly, _costly, _costly, _without_fields, _deep, _aliases, _no_file),
)


def make(seed: int, folder: Path) -> Path:
    """Makes `hostile.yaml` in the folder, by the seed."""
    dice, path = random.Random(seed), folder / "hostile.yaml"
    dice.choice(KINDS)(dice, path)
    return path


def written_whole(path: Path) -> None:
    """Writes the file that the others are made of."""
    path.write_text(yaml.safe_dump(FULL))


def write_good(path: Path) -> None:
    """Writes a file that has nothing to do with the others in its folder."""
    source = {"bootstrap_servers": "k:1", "topics": ["a"], "schema": "id INT"}
    data = {"name": path.stem, "source": source, "change": {"keys": ["id"]}, "target": {"table": "lake://gold/good"}}
    path.write_text(yaml.safe_dump(data))


def clean(path: Path) -> None:
    """Removes what `make` has made."""
    path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
