"""Protobuf that no producer should send, from a seed: limits, wrong wire types, groups, lengths that are not there, and
messages within messages without end. The writer is one of its own: a library would refuse most of this."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from random import Random

from tests.hostile.accidents import ENCODINGS, hurt
from tests.hostile.avro import CLAIMS, framed
from tests.hostile.avro import varint as zigzag
from tests.hostile.generator import MEGABYTE, Record
from tests.hostile.lexemes import PLAIN
from tests.hostile.protobuf_messages import HOSTILE, KINDS, PACKED, PLACES, WIRE

_WHOLE = [sign * 2**bits + by for bits in (0, 7, 15, 31, 32, 63) for sign in (1, -1) for by in (-1, 0, 1)]
_DOUBLES = [0.0, -0.0, 1.5, 0.1, 1e308, 5e-324, 3.4e38, 1e22, 123456789.125, float("nan"), float("inf"), float("-inf")]
_SECONDS = [
    -62_135_596_800,
    -62_135_596_801,
    253_402_300_799,
    253_402_300_800,
    0,
    -1,
    2**63 - 1,
    -(2**63),
    1_709_210_096,
]
_NANOS = [0, 1, 999_999_999, 1_000_000_000, -1, 789_012_345, 2**31 - 1]


def varint(number: int) -> bytes:
    """A number of 64 bits; negative ones as Protobuf writes them, longer ones as they are."""
    rest, found = number % 2**64 if number < 2**64 else number, bytearray()
    while rest > 0x7F:
        found.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*found, rest])


def tagged(number: int, wire: int, payload: bytes) -> bytes:
    return varint(number << 3 | wire) + payload


def sized(payload: bytes) -> bytes:
    return varint(len(payload)) + payload


class ProtobufRecords:
    """Records of message `Hostile`."""

    def __init__(self, seed: int | str, number: int) -> None:
        """Args: number: the schema's id."""
        self.random, self.number = Random(seed), number

    def scalar(self, kind: str, name: str, wild: bool) -> bytes:
        random = self.random
        if kind in ("float", "double"):
            found = random.choice(_DOUBLES) if wild else random.randrange(99) / 4
            try:
                return struct.pack(PACKED[kind], found)
            except OverflowError:
                return struct.pack(PACKED[kind], float("inf"))
        if kind in ("string", "bytes"):
            return sized(self.text(kind, name, wild))
        found = random.choice((random.choice(_WHOLE), random.getrandbits(64))) if wild else random.randrange(100)
        if kind in PACKED:
            bits = struct.calcsize(PACKED[kind]) * 8
            return (found % 2**bits).to_bytes(bits // 8, "little")
        if kind == "enum":
            return varint(random.choice((0, 1, -5, *([2, -1, 2**31, 2**40] if wild else []))))
        if kind == "bool":
            return varint(found if wild else found % 2)
        return zigzag(found % 2**63) if kind.startswith("s") else varint(found)

    def text(self, kind: str, name: str, wild: bool) -> bytes:
        random = self.random
        usual = {"money": b"12.5", "day": b"2024-02-29"}.get(name)
        if not wild:
            return usual or random.choice((b"", b"a", "ä😀".encode(), b"\0", b"x" * 300))
        if kind == "bytes" or random.random() < 0.15:
            return random.choice(ENCODINGS)
        return random.choice(PLAIN).encode("utf-8", "replace")

    def stamp(self, wild: bool) -> bytes:
        seconds = self.random.choice(_SECONDS) if wild else self.random.randrange(-(10**9), 10**10)
        nanos = self.random.choice(_NANOS) if wild else self.random.randrange(10**9)
        return tagged(1, 0, varint(seconds)) + tagged(2, 0, varint(nanos))

    def payload(self, kind: str, name: str, wild: float, level: int) -> bytes:
        is_wild = self.random.random() < wild
        if kind == "Timestamp":
            return sized(self.stamp(is_wild))
        if kind in KINDS:
            return sized(self.message(kind, wild, level + 1))
        return self.scalar(kind, name, is_wild)

    def message(self, kind: str, wild: float, level: int = 0) -> bytes:
        """Fields in any order, some of them twice, packed or not."""
        random, parts = self.random, []
        for number, (name, marked) in KINDS[kind].items():
            bare = marked.lstrip("*?")
            is_repeated = marked.startswith(("*", "map "))
            times = random.choice((0, 1, 2, 5)) if is_repeated else random.choice((0, 1, 1, 1, 1))
            if level > 3 or (name == "two" and random.random() < 0.5):
                times = 0
            if level == 0 and name in ("id", "seq"):
                times = 1
            if random.random() < wild / 5:
                times += 1
            wire = WIRE.get(bare, 2)
            found = [self.payload(bare, name, wild, level) for _ in range(times)]
            if is_repeated and wire != 2 and found and random.random() < 0.7:
                parts.append(tagged(number, 2, sized(b"".join(found))))
            else:
                parts += [tagged(number, wire, one) for one in found]
        random.shuffle(parts)
        return b"".join(parts)

    def hostile(self, wild: float) -> bytes:
        return self.message("Hostile", wild)

    def strange(self) -> bytes:
        """A message with a field that does not belong there."""
        random, whole = self.random, self.hostile(0.0)
        number = random.choice((*HOSTILE, *HOSTILE, 0, 31, 1_000, 2**29 - 1, 2**29, 2**33))
        claim = random.choice([claim for claim in CLAIMS if claim < 2**64])
        parts = [
            tagged(number, random.randrange(8), random.randbytes(random.randrange(12))),
            tagged(number, 0, varint(random.getrandbits(64))),
            tagged(number, 0, b"\xff" * random.choice((4, 8, 9, 10, 50)) + random.choice((b"\x01", b"\x7f"))),
            tagged(number, 1, random.randbytes(8)),
            tagged(number, 5, random.randbytes(4)),
            tagged(number, 2, varint(claim) + random.randbytes(8)),
            tagged(number, 2, sized(random.randbytes(random.randrange(9)))),
            tagged(number, 2, sized(self.message(random.choice(list(KINDS)), 0.3, 2))),
            tagged(number, 3, tagged(7, 0, b"\x01") + tagged(number, 4, b"")),
            tagged(number, 3, tagged(number + 1, 4, b"")),
            tagged(number, 4, b""),
        ]
        part = random.choice(parts)
        return random.choice((part + whole, whole + part))

    def frames(self) -> Iterator[bytes]:
        """A message behind indexes that lead to it, to another one, to none."""
        whole = self.hostile(0.0)
        numbers = (0, 1, 2, 3, -1, -2, -3, 2**31 - 1, -(2**31), 2**40, 2**63 - 1, 2**70)
        paths = [(), *PLACES, *((n,) for n in numbers), *((2, n) for n in numbers), (2, 0, 0), (2, 0, -1), (-1, 0)]
        for path in paths:
            for bare in (whole, self.message("Other", 0.0)):
                yield zigzag(len(path)) + b"".join(map(zigzag, path)) + bare
        for count in (-1, -(2**31), 2**31, 2**62, 2**70, 10**6):
            yield zigzag(count) + zigzag(2) + whole
        for bare in (b"\xff", b"\0", b"\2", b"\x80", b"\x01"):
            yield bare * MEGABYTE
        yield zigzag(10**6) + b"\0" * MEGABYTE

    def deep(self) -> Iterator[bytes]:
        """Messages and groups within each other, and much of what is small."""
        for levels in (2, 50, 90, 150, 1_000, 5_000, 100_000):
            found = b""
            for _ in range(min(levels, 5_000)):
                found = tagged(1, 0, b"\x05") + tagged(2, 2, sized(found))
            yield tagged(28, 2, sized(found))
            yield tagged(99, 3, b"") * levels + tagged(99, 4, b"") * levels
            yield tagged(28, 3, b"") * levels
        yield tagged(20, 2, b"\0") * (MEGABYTE // 3)
        yield tagged(21, 2, sized(b"\x01" * (MEGABYTE // 4)))
        yield tagged(23, 2, b"\0") * (MEGABYTE // 3)
        yield b"".join(tagged(22, 2, sized(tagged(1, 2, sized(b"%d" % n)))) for n in range(MEGABYTE // 10))
        yield tagged(22, 2, sized(tagged(1, 2, sized(b"k" * 60_000))))
        yield tagged(3, 2, sized(b"a" * MEGABYTE))

    def records(self, count: int, strangers: tuple[int, ...] | list[int] = ()) -> list[Record]:
        """Args: count: how many, apart from frames and depths. strangers: ids of schemas that are no messages."""
        at = zigzag(1) + zigzag(2)
        bare = [at + self.hostile(wild) for wild in (0.0, 0.02, 0.1) for _ in range(count // 5)]
        bare += [at + self.strange() for _ in range(count // 5)]
        bare += [at + hurt(self.random, self.hostile(0.0), self.hostile(0.05)) for _ in range(count // 5)]
        plain = tagged(1, 0, b"\x05") + tagged(2, 0, b"\x02")
        bare += [*self.frames(), *(at + plain + one for one in self.deep())]
        values: list[bytes | None] = [framed(self.number, one) for one in bare]
        values += [framed(number, bare[0]) for number in strangers]
        values += [None, b"", b"\0", b"\0\0\0\0\1", framed(self.number, b""), framed(self.number, at), b"{}", bare[0]]
        self.random.shuffle(values)
        return [Record(None, value) for value in values]
