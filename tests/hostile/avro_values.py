"""Values of an Avro schema from a seed: usual ones, and ones at their limits."""

from __future__ import annotations

import struct
from random import Random
from typing import Any

from tests.hostile.accidents import ENCODINGS
from tests.hostile.avro_schemas import Avro, plain
from tests.hostile.lexemes import PLAIN

# Values

_WHOLE = [sign * 2**bits + by for bits in (0, 7, 8, 15, 24, 31, 53, 63) for sign in (1, -1) for by in (-1, 0, 1)]
_DAYS = [-719_162, -719_163, 2_932_896, 2_932_897, -(2**31), 2**31 - 1, 0, -1, 19_782, 106_751_992]
_SECONDS = [-62_135_596_800, -62_135_596_801, 253_402_300_799, 253_402_300_800, 0, -1, 1_709_210_096]
_DOUBLES = [
    *(0.0, -0.0, 1.0, 1.5, 1.9, -1.5, 0.1, 2.675, 1.005, 5e-324, 1e-310, 1.7976931348623157e308, 3.4028235677973366e38),
    *(3.4028234663852886e38, 2.0**24 + 1, 2.0**31, 2.0**31 - 1, -(2.0**31), 2.0**53, 2.0**63, -(2.0**63), 1e10, 1e28),
    *(9999999999.99, 9999999999.995, 127.0, 128.0, float("nan"), float("inf"), float("-inf")),
]
_TEXTS = ["", " ", "a", "\0", "ä😀", "x" * 300, "5", "-7", "1.5", "true", "2024-02-29", "2024-02-29T12:34:56.789012Z"]


def whole(random: Random, bits: int) -> int:
    found = [number for number in _WHOLE if -(2 ** (bits - 1)) <= number < 2 ** (bits - 1)]
    return random.choice(
        (random.choice(found), random.randrange(-100, 100), random.randrange(-(2 ** (bits - 1)), 2 ** (bits - 1)))
    )


def unscaled(random: Random, precision: int, size: int | None) -> bytes:
    """A decimal's bytes; some hold more digits than they may, some a number that looks small in its last 64 bits."""
    limit = 10**precision
    numbers = [0, 1, -1, limit - 1, 1 - limit, limit, -limit, random.randrange(limit), random.randrange(limit)]
    numbers += [2**64 + 5, -(2**64) - 5, 2**127 + 7, 2**63, 2**64 - 1]
    number = random.choice(numbers) if random.random() < 0.5 else random.randrange(min(limit, 10**10))
    if size is None:
        length = (number.bit_length() + 8) // 8 + random.choice((0, 0, 0, 1, 9))
        return (
            random.choice((b"", b"\0" * 40)) if random.random() < 0.02 else number.to_bytes(length, "big", signed=True)
        )
    limit = 2 ** (8 * size - 1)
    return max(-limit, min(limit - 1, number)).to_bytes(size, "big", signed=True)


def valid(random: Random, schema: Avro, wild: float) -> Any:
    """A value as the schema has it. Args: wild: how often it is a strange one.

    A union's value is the branch's place and the value; texts are bytes.
    """
    if isinstance(schema, list):
        # Mostly what fits: the last of three does not.
        branch = random.choice((0, 0, 1)) if random.random() > wild else random.randrange(len(schema))
        return branch, valid(random, schema[branch], wild)
    is_wild = random.random() < wild
    kind = schema.get("logicalType") if isinstance(schema, dict) else None
    connect = schema.get("connect.name", "") if isinstance(schema, dict) else ""
    match plain(schema):
        case "null":
            return None
        case "boolean":
            return random.random() < 0.5
        case "int" if kind == "date" or connect.endswith("Date"):
            return random.choice(_DAYS) if is_wild else random.randrange(-700_000, 2_900_000)
        case "int":
            return whole(random, 32) if is_wild else random.randrange(-100, 100)
        case "long" if "imestamp" in f"{kind}{connect}":
            each = {"s": 1_000, "o": 10**6, "a": 10**9}[_unit(f"{kind}{connect}")]
            if is_wild:
                limit = random.choice(_SECONDS) * each + random.choice((0, 1, -1))
                return limit if -(2**63) <= limit < 2**63 and random.random() < 0.7 else whole(random, 64)
            return random.randrange(-9_000_000_000, 9_000_000_000) * each + random.randrange(each)
        case "long":
            return whole(random, 64) if is_wild else random.randrange(-1_000, 1_000)
        case "float" | "double" as word:
            found = random.choice((*_DOUBLES, random.uniform(-9, 9))) if is_wild else float(random.randrange(99))
            if word == "double":
                return found
            try:
                return struct.unpack("<f", struct.pack("<f", found))[0]
            except OverflowError:
                return float("inf")
        case "bytes" | "fixed" if kind == "decimal":
            return (
                unscaled(random, schema["precision"], schema.get("size"))
                if is_wild
                else (random.randrange(-999, 1_000).to_bytes(schema.get("size", 2), "big", signed=True))
            )
        case "bytes":
            return (
                random.choice((b"", b"abc", b"\xc3\xa4", *ENCODINGS))
                if is_wild
                else random.randbytes(random.randrange(5))
            )
        case "fixed":
            return random.choice(
                (b"abcdefghijkl"[: schema["size"]].ljust(schema["size"], b"x"), random.randbytes(schema["size"]))
            )
        case "string":
            if not is_wild:
                return random.choice(_TEXTS).encode()
            return (
                random.choice(ENCODINGS) if random.random() < 0.2 else random.choice(PLAIN).encode("utf-8", "replace")
            )
        case "enum":
            return random.randrange(len(schema["symbols"]))
        case "array":
            return [valid(random, schema["items"], wild) for _ in range(random.choice((0, 1, 2, 3)))]
        case "map":
            some = (b"a", b"b", "ü".encode(), b"", *([b"\xff"] if is_wild else []))
            names = random.choices(some, k=random.randrange(4))
            return [(name, valid(random, schema["values"], wild)) for name in names]  # the same name twice, too
        case _:
            return {field["name"]: valid(random, field["type"], wild) for field in schema["fields"]}


def _unit(name: str) -> str:
    """A letter of the unit's name: s for millis, o for micros, a for nanos."""
    return "a" if "ano" in name else "o" if "icro" in name else "s"
