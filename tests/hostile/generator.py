"""Records that no producer should send, from a seed: valid ones, ones that are hurt, and limits of everything."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.hostile.accidents import encoded, hurt
from tests.hostile.lexemes import LEXEMES, PLAIN, plain_text, valid_lexeme
from tests.hostile.types import Schema

MEGABYTE = 1_000_000


@dataclass(frozen=True)
class Record:
    key: bytes | None
    value: bytes | None


# JSON


def json_text(fields: dict[str, str]) -> str:
    return "{" + ", ".join(f"{json.dumps(name)}: {lexeme}" for name, lexeme in fields.items()) + "}"


class JsonRecords:
    """Records of format `json`, with keys as Kafka has them."""

    def __init__(self, seed: int | str, schema: Schema, ids: int = 2**40, key: str | None = None) -> None:
        """Args: ids: the number of keys."""
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
        """Records of which one each is enough: no value, other encodings, nesting, names, size."""
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


class CsvRecords:
    """Lines of semicolons; without quotes and escapes, which programs read in different ways."""

    def __init__(self, seed: int | str, schema: Schema, ids: int = 2**40) -> None:
        """Args: ids: the number of keys."""
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
