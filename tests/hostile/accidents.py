"""What happens to a valid record on its way: cut, doubled, mixed with another one, in other encodings."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

# Hurt


def hurt(random: Random, value: bytes, other: bytes) -> bytes:
    """A valid record after an accident. Args: other: another one."""
    place = random.randrange(len(value) + 1)
    end = min(len(value), place + random.randrange(1, 9))
    some = random.randbytes(random.randrange(1, 9))
    accidents: list[Callable[[], bytes]] = [
        lambda: value[:place] + bytes([random.randrange(256)]) + value[place + 1 :],
        lambda: value[:place] + bytes([value[place % len(value)] ^ (1 << random.randrange(8))]) + value[place + 1 :],
        lambda: value[:place],
        lambda: value[place:],
        lambda: value[:place] + value[end:],
        lambda: value[:end] + value[place:],
        lambda: value + other,
        lambda: value + random.choice((b" ", b"\n", b",", b"\0")) + other,
        lambda: value[:place] + other[place:],
        lambda: some + value,
        lambda: value + some,
        lambda: value + random.choice((b"}", b" ", b"\n", b"\0", b"x", b"null", b"\xff")),
        lambda: value[:place] + some + value[place:],
        lambda: value[:place] + random.choice(ENCODINGS) + value[place:],
        lambda: value[:place] + random.choice((b'"', b",", b":", b"[", b"{", b"\\", b"-", b".", b"e9")) + value[end:],
        lambda: value.replace(b"a", random.choice(ENCODINGS)),
    ]
    return random.choice(accidents)()


# What is no text in UTF-8, or looks like none: overlong forms, halves of pairs, beyond Unicode, cut, BOM, NUL.
ENCODINGS = [
    b"\xff",
    b"\x80",
    b"\xc0\xaf",
    b"\xc1\x81",
    b"\xe0\x80\xaf",
    b"\xed\xa0\x80",
    b"\xed\xa0\xbd\xed\xb8\x80",
    b"\xf4\x90\x80\x80",
]
ENCODINGS += [
    b"\xf8\x88\x80\x80\x80",
    b"\xe2\x82",
    b"\xf0\x9f\x98",
    b"\xef\xbb\xbf",
    b"\0",
    b"\xc3\xa4",
    b"\xef\xbf\xbe",
    b"\x01",
    b"\x7f",
    b"\xc2\x85",
]


def encoded(text: str) -> list[bytes]:
    """A text in encodings that are not, or not only, UTF-8."""
    names = ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-7", "utf-8-sig")
    return [*(text.encode(name) for name in names), text.replace("a", "ä").encode("latin-1", "replace")]
