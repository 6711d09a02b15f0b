"""What may stand in a field of a record: strange values, and valid ones of a type from a seed."""

from __future__ import annotations

import json
from random import Random

from tests.hostile.types import INTEGERS, Type

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
    *("2024-02-29T05:16Z", "2024-02-29 5:6+02:00", "2024-02-29T05:16-0930", "2024-02-29T05Z", "2024-02-29T05:16:Z"),
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


# Lines


def plain_text(random: Random, type_: Type) -> str:
    """A valid value, as it stands in a line."""
    lexeme = valid_lexeme(random, type_)
    return str(json.loads(lexeme)) if lexeme.startswith('"') else lexeme
