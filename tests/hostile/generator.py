"""Records that no producer should send, from a seed: valid ones, ones that are hurt, and limits of everything."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.hostile.types import INTEGERS, Schema, Type

MEGABYTE = 1_000_000


@dataclass(frozen=True)
class Record:
    key: bytes | None
    value: bytes | None


# What may stand in a field of JSON, as it is written there.

_INTEGERS = [
    *(str(sign * 2**bits + by) for bits in (7, 8, 15, 16, 31, 32, 63, 64) for sign in (1, -1) for by in (-1, 0, 1)),
    *("0", "-0", "1", "00", "01", "+1", "-", "- 1", "1_000", "0x10", "9" * 38, "9" * 39, "-" + "9" * 38, "9" * 400),
]
_DECIMALS = [
    *("0.0", "-0.0", "1.", ".5", "1.5", "1.005", "-1.005", "2.675", "0.004", "0.005", "1.0", "1,5", "9999999999.99"),
    *("9999999999.994", "9999999999.995", "-9999999999.99", "10000000000", "0." + "1" * 60, "1" * 28 + "." + "9" * 10),
    *("1" * 28 + "." + "9" * 11, "9" * 28 + "." + "9" * 11, "1" * 29 + ".5", "0.1", "123456789.123456789"),
]
_EXPONENTS = [
    *("1e0", "1E2", "1e+2", "1e-2", "15e-1", "1e9", "1e10", "1e28", "1e27", "1e38", "1e39", "1e-10", "1e-11", "5e-11"),
    *("3.4028234663852886e38", "3.4028235e38", "3.4028236e38", "1e39", "-3.4028235e38", "1e-45", "1e-46", "1e308"),
    *("1.7976931348623157e308", "1.7976931348623159e308", "1e309", "1e400", "1e-400", "-1e400", "1e-324", "5e-324"),
    *("1e401", "1e-401", "1e999", "1e9999", "1e999999999", "-1e999999999", "1e-999999999", "1e99999999999", "1e", "e1"),
    *("0e0", "0e999999999", "1e0001", "123456789012345678901234567890e-20"),
]
_WORDS = ["true", "false", "null", "TRUE", "None", "NaN", "Infinity", "-Infinity", "+Infinity", "INF", "nan", "inf"]
_WORDS += ["undefined", "yes", "t", "1d", "1f", "0b1", "x"]
_MOMENTS = [
    *("0000-01-01", "0001-01-01", "1582-10-04", "1582-10-10", "1582-10-15", "1900-02-29", "1969-12-31", "1970-01-01"),
    *("2024-02-29", "2023-02-29", "2024-02-30", "2024-13-01", "2024-00-10", "2024-1-5", "9999-12-31", "10000-01-01"),
    *("24-01-01", "-2024-01-01", "+2024-01-01", "20240101", "2024/01/01", "01.02.2024", "2024-01", "2024", "today"),
    *("now", "epoch", "yesterday", "tomorrow", "10:20:30", "T10:20:30", "10:20", "2024-01-01T00:00:00Z"),
    *("2024-01-01T00:00:00", "2024-01-01 00:00", "2024-01-01T00:00:00.000Z", "2024-01-01T00:00:00.000000001Z"),
    *(
        "2024-02-29T12:34:56",
        "2024-02-29 12:34:56.789012",
        "2024-02-29T12:34:56.789012Z",
        "2024-02-29T12:34:56.7890129Z",
    ),
    *("2024-02-29T12:34:56+02:00", "2024-02-29T12:34:56-0930", "2024-02-29T12:34:56+2", "2024-02-29T12:34:56+18:00"),
    *("2024-02-29T12:34:56+18:01", "2024-02-29T12:34:56+19:00", "2024-02-29T12:34:56 BST", "2024-02-29T12:34:56 IST"),
    *("2024-02-29T12:34:56 CST", "2024-02-29T12:34:56 EST", "2024-02-29T12:34:56 nowhere", "2024-02-29T12"),
    *("2024-02-29T12:34", "2024-02-29T", "2024-02-29T24:00:00", "2024-02-29T23:59:60", "2024-02-29T12:60:00"),
    *("2024-02-29T12:34:56.", "2024-02-29T12:34:56,789", " 2024-02-29", "2024-02-29 ", "2024-02-29\t", "2024-02-29x"),
    *("0001-01-01T00:00:00Z", "0001-01-01T00:00:00+00:01", "0001-01-01T00:00:00-00:01", "0000-12-31T23:59:59.999999Z"),
    *("9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59-00:01", "9999-12-31T23:59:59.9999999Z", "2024-02-29T1:2:3"),
    *("0000-12-31T23:59:00-00:01", "10000-01-01T00:00:00+00:01", "2024-366", "2024-W09-4", "２０２４-０２-２９"),
]
_EPOCHS = ["1709210096", "1709210096789", "1709210096789012", "1709210096789012345", "-1", "-1709210096789012345"]
_EPOCHS += ["-62135596800", "-62135596801", "253402300799", "253402300800", "253402300799999999", "253402300800000000"]
_TEXTS = [
    "",
    " ",
    "a",
    "\u0000",
    "ä",
    "日本語",
    "😀",
    "\ufeff",
    "\u2028",
    "\ud83d\ude00",
    "null",
    '"',
    "\\",
    "a\tb\nc",
    "${env:HOME}",
    "'; --",
]
_TEXTS += [
    "QUJD",
    "QUI=",
    "QUI",
    "QR==",
    "Q",
    "====",
    "QU JD",
    "QU\nJD",
    "QUJD=",
    "-_-_",
    "１２",
    "٣",
    "1e٩٩٩",
    " 1",
    "1 ",
    "+1",
]
_RAW = [
    *(
        '"\\ud800"',
        '"\\udc00"',
        '"\\ud800x"',
        '"\\udc00\\ud800"',
        '"\\ud83d\\ude00"',
        '"\\u0000"',
        '"\\u12"',
        '"\\x41"',
        '"\\/"',
    ),
    *(
        "'a'",
        '"a',
        '"\t"',
        '"\\u0031"',
        "[]",
        "{}",
        "[null]",
        "[[]]",
        '["a", 1, true, null, {"x": 1.50}]',
        "[1.5, null, 2]",
    ),
    *('["1.5"]', '["x"]', "[1e999999999]", '["1e999999999"]', '{"a": 1}', '{"a": null}', '{"a": 1, "a": 2}', '{"": 1}'),
    *(
        '{"a": 9223372036854775808}',
        '{"a": "2024-02-29"}',
        '{"a": 1709210096}',
        '{"a": "10:20:30"}',
        '{"a": {}}',
        '{"a": []}',
    ),
    *('{"at": 5}', '{"at": "2024-02-29T12:34:56Z"}', '{"wide": 1e30}', '{"wide": "0.1"}', '{"wide": "1e999999999"}'),
    *(
        '{"tiny": 200}',
        '{"tiny": -128}',
        '{"ratio": 1e39}',
        '{"day": "2024-02-30"}',
        '{"day": "2024-02-29", "day": null}',
    ),
    *(
        '{"list": ["2024-01-01", null]}',
        '{"list": ["2024-01-01", "10:20:30"]}',
        '{"list": [5]}',
        '{"list": {}}',
        '{"AT": 5}',
    ),
    *("1 2", "1,", "1 /* c */", "// c", "#", "[1", "1]", '"1e\\u0039\\u0039\\u0039\\u0039"'),
]


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


LEXEMES = [
    *(*_INTEGERS, *_DECIMALS, *_EXPONENTS, *_WORDS, *_EPOCHS, *_RAW),
    *map(_quoted, (*_INTEGERS, *_DECIMALS, *_EXPONENTS, *_WORDS, *_MOMENTS, *_EPOCHS, *_TEXTS)),
]
PLAIN = [*_INTEGERS, *_DECIMALS, *_EXPONENTS, *_WORDS, *_MOMENTS, *_EPOCHS, *_TEXTS]


# Valid values


def valid_lexeme(random: Random, type_: Type) -> str:
    """A value of the type, as JSON writes it."""
    match type_.word:
        case word if word in INTEGERS:
            limit = 2 ** (INTEGERS[word] - 1)
            return str(random.choice((0, 1, -limit, limit - 1, random.randrange(-limit, limit))))
        case "STRING":
            return json.dumps(
                "".join(random.choices('abc äß日😀"\\\n0', k=random.randrange(12))), ensure_ascii=random.random() < 0.5
            )
        case "DECIMAL":
            digits = random.randrange(10**type_.precision)
            text = f"{random.choice(('', '-'))}{digits // 10**type_.scale}.{digits % 10**type_.scale:0{type_.scale}}"
            return text if random.random() < 0.5 else f'"{text}"'
        case "FLOAT" | "DOUBLE":
            return repr(random.choice((0.0, random.uniform(-1e6, 1e6), random.uniform(-1, 1) * 1e30)))
        case "BOOLEAN":
            return random.choice(("true", "false"))
        case "DATE":
            return f'"{_day(random)}"'
        case "TIMESTAMP":
            time = f"{random.randrange(24):02}:{random.randrange(60):02}:{random.randrange(60):02}"
            return f'"{_day(random)}T{time}.{random.randrange(10**6):06}Z"'
        case "BINARY":
            return random.choice(('""', '"AA=="', '"AAE="', '"////"'))
        case "ARRAY":
            return "[" + ", ".join(_or_null(random, type_.parts[0]) for _ in range(random.randrange(3))) + "]"
        case "MAP":
            names = random.sample(("a", "b", "ü", "a.b"), random.randrange(3))
            return "{" + ", ".join(f'"{name}": {_or_null(random, type_.parts[0])}' for name in names) + "}"
        case _:
            return "{" + ", ".join(f'"{name}": {_or_null(random, inner)}' for name, inner in type_.fields) + "}"


def _or_null(random: Random, type_: Type) -> str:
    return "null" if random.random() < 0.1 else valid_lexeme(random, type_)


def _day(random: Random) -> str:
    return f"{random.randrange(1, 10_000):04}-{random.randrange(1, 13):02}-{random.randrange(1, 29):02}"


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


# JSON


def json_text(fields: dict[str, str]) -> str:
    return "{" + ", ".join(f"{json.dumps(name)}: {lexeme}" for name, lexeme in fields.items()) + "}"


class JsonRecords:
    """Records of format `json`, with keys as Kafka has them."""

    def __init__(self, seed: int | str, schema: Schema, ids: int = 2**40, key: str | None = None) -> None:
        """Args: ids: so many keys there are."""
        self.random, self.schema, self.ids, self.key = Random(seed), schema, ids, key

    def fields(self) -> dict[str, str]:
        found = {name: valid_lexeme(self.random, type_) for name, type_ in self.schema.items()}
        for name in self.random.sample(list(self.schema), self.random.randrange(4)):
            if name not in ("id", "seq"):
                found[name] = "null"
                if self.random.random() < 0.5:
                    del found[name]
        return {**found, "id": str(self.random.randrange(self.ids)), "seq": str(self.random.randrange(2**40))}

    def lexemes(self, count: int) -> Iterator[bytes]:
        """Valid records with a strange value or two."""
        for _ in range(count):
            fields = self.fields()
            for name in self.random.sample(list(self.schema), self.random.choice((1, 1, 1, 2))):
                fields[name] = self.random.choice(LEXEMES)
            if self.random.random() < 0.05:
                fields["more"] = self.random.choice(LEXEMES)
            yield json_text(fields).encode("utf-8", "surrogatepass")

    def hurt(self, count: int) -> Iterator[bytes]:
        for _ in range(count):
            yield hurt(self.random, json_text(self.fields()).encode(), json_text(self.fields()).encode())

    def shapes(self) -> Iterator[bytes | None]:
        """Of which one is enough: no value, other encodings, nesting, names, size."""
        fields = self.fields()
        whole = json_text(fields)
        yield from (None, b"", b" ", b"{}", b"[]", b"null", b"1", b'"a"', b"[%s]" % whole.encode(), b"{", b"}", b"\0")
        yield from encoded(whole)
        yield from (b" \r\n\t" + whole.encode() + b"\n ", b"\x0c" + whole.encode(), b"\xc2\xa0" + whole.encode())
        for name in ("name", "more", "inner", "tags"):
            for levels in (10, 900, 998, 999, 1_000, 1_001, 2_000):
                yield json_text({**fields, name: "[" * levels + "]" * levels}).encode()
                yield json_text({**fields, name: '{"a":' * levels + "1" + "}" * levels}).encode()
            yield json_text({**fields, name: "[" * 2_000}).encode()
        bare = whole[1:-1]
        for twice in (
            '"id": 7',
            '"name": "x"',
            '"name": null',
            '"\\u0069d": 7',
            '"ID": 7',
            '"more": 1, "more": 1',
            '"more": {"a": 1, "a": 1}',
        ):
            yield f"{{{bare}, {twice}}}".encode()
        yield json_text({**fields, "name": json.dumps("a" * MEGABYTE)}).encode()
        yield json_text({**fields, "name": json.dumps("ä😀" * (MEGABYTE // 12))}).encode()
        yield json_text({**fields, "more": "[" + "1," * (MEGABYTE // 2) + "1]"}).encode()
        yield json_text({**fields, "tags": "[" + '"a",' * (MEGABYTE // 4) + '"a"]'}).encode()
        for name in ("id", "money", "wide", "ratio", "size", "name", "at", "more"):
            for digits in (300, 310, 1_000, 1_001, 20_000):
                yield json_text({**fields, name: "9" * digits}).encode()
                yield json_text({**fields, name: "0." + "0" * digits + "1"}).encode()
            yield json_text({**fields, name: f'"{"9" * 20_000}"'}).encode()
            yield json_text({**fields, name: f'"{"9" * 50_000}"'}).encode()
        for length in (49_000, 60_000):
            yield json_text({**fields, "x" * length: "1"}).encode()
        yield (" " * MEGABYTE + whole).encode()

    def keys(self) -> Iterator[bytes | None]:
        while True:
            number = str(self.random.randrange(self.ids))
            good = number.encode() if self.key == "string" else json_text({"id": number}).encode()
            strange = self.random.choice(LEXEMES).encode("utf-8", "surrogatepass")
            found: list[bytes | None] = [good, good, good, None, b"", hurt(self.random, good, good), strange]
            if self.key == "json":
                found += [json_text({"schema": "{}", "payload": good.decode()}).encode(), b'{"id": %s}' % strange]
            yield self.random.choice(found)

    def records(self, count: int) -> list[Record]:
        """Args: count: how many, apart from the shapes."""
        values: list[Any] = [json_text(self.fields()).encode() for _ in range(count // 10)]
        values += [*self.lexemes(count // 2), *self.hurt(count - len(values) - count // 2), *self.shapes()]
        if self.key:
            values += [json_text({**self.fields(), "id": "null"}).encode() for _ in range(count // 4)]
        self.random.shuffle(values)
        keys = self.keys() if self.key else iter(lambda: None, 0)
        return [Record(key, value) for key, value in zip(keys, values, strict=False)]


# Lines


def plain_text(random: Random, type_: Type) -> str:
    """A valid value, as it stands in a line."""
    lexeme = valid_lexeme(random, type_)
    return str(json.loads(lexeme)) if lexeme.startswith('"') else lexeme


class CsvRecords:
    """Lines of semicolons; without quotes and escapes, which programs read in different ways."""

    def __init__(self, seed: int | str, schema: Schema, ids: int = 2**40) -> None:
        """Args: ids: so many keys there are."""
        self.random, self.schema, self.ids = Random(seed), schema, ids

    def line(self, strange: int = 0) -> bytes:
        fields = {name: plain_text(self.random, type_) for name, type_ in self.schema.items()}
        fields["name"] = "".join(character for character in fields["name"] if character not in '"\\\n')
        fields |= {"id": str(self.random.randrange(self.ids)), "seq": str(self.random.randrange(2**40))}
        for name in self.random.sample(list(fields), strange):
            fields[name] = self.random.choice(PLAIN)
        return ";".join(fields.values()).encode("utf-8", "surrogatepass")

    def records(self, count: int) -> list[Record]:
        lines: list[bytes | None] = [self.line() for _ in range(count // 10)]
        lines += [self.line(self.random.choice((1, 1, 2))) for _ in range(count // 2)]
        lines += [hurt(self.random, self.line(), self.line()) for _ in range(count - len(lines))]
        whole = self.line()
        lines += [
            None,
            b"",
            b";",
            b"\n",
            whole + b"\n",
            whole + b"\r\n",
            whole + b";",
            b";" + whole,
            whole + b"\n" + whole,
        ]
        lines += [*encoded(whole.decode()), b";" * MEGABYTE, b"a" * MEGABYTE, whole.replace(b";", b",")]
        self.random.shuffle(lines)
        return [Record(None, line) for line in lines]


# Debezium


class DebeziumRecords(JsonRecords):
    """Envelopes whose row images are hostile."""

    def fields(self) -> dict[str, str]:
        """Decimals as numbers: texts are base64 here."""
        found = super().fields()
        return {name: text.strip('"') if name in ("money", "wide") else text for name, text in found.items()}

    def records(self, count: int) -> list[Record]:
        def envelope(row: bytes) -> bytes:
            op = self.random.choice((b'"c"', b'"u"', b'"r"'))
            inner = b'{"op": %s, "before": null, "after": %s}' % (op, row)
            return inner if self.random.random() < 0.5 else b'{"schema": null, "payload": %s}' % inner

        values: list[bytes] = [envelope(json_text(self.fields()).encode()) for _ in range(count // 10)]
        values += map(envelope, self.lexemes(count // 2))
        values += [hurt(self.random, values[n], values[n + 1]) for n in range(count // 4)]
        values += [envelope(value) for value in self.hurt(count // 8)]
        for op in ('"x"', '"m"', "null", "1", '"C"', '""', "[]"):
            values.append(b'{"op": %s, "after": %s}' % (op.encode(), json_text(self.fields()).encode()))
        self.random.shuffle(values)
        return [Record(None, value) for value in (*values, None)]
