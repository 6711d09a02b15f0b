"""Declared types, as the generator and the oracle have them."""

from __future__ import annotations

from dataclasses import dataclass

INTEGERS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}


@dataclass(frozen=True)
class Type:
    word: str
    parts: tuple[Type, ...] = ()  # ARRAY: the type of its items; MAP: the type of its values
    fields: tuple[tuple[str, Type], ...] = ()
    precision: int = 0
    scale: int = 0

    @property
    def ddl(self) -> str:
        match self.word:
            case "DECIMAL":
                return f"DECIMAL({self.precision}, {self.scale})"
            case "ARRAY":
                return f"ARRAY<{self.parts[0].ddl}>"
            case "MAP":
                return f"MAP<STRING, {self.parts[0].ddl}>"
            case "STRUCT":
                return "STRUCT<" + ", ".join(f"{name}: {type_.ddl}" for name, type_ in self.fields) + ">"
            case _:
                return self.word


Schema = dict[str, Type]


def ddl(schema: Schema) -> str:
    return ", ".join(f"{name} {type_.ddl}" for name, type_ in schema.items())


def decimal(precision: int, scale: int) -> Type:
    return Type("DECIMAL", precision=precision, scale=scale)


_TIMESTAMP, _DATE, _FLOAT = Type("TIMESTAMP"), Type("DATE"), Type("FLOAT")
_MONEY, _WIDE = decimal(12, 2), decimal(38, 10)

FLAT: Schema = {
    "id": Type("BIGINT"),
    "seq": Type("BIGINT"),
    "name": Type("STRING"),
    "number": Type("INT"),
    "small": Type("SMALLINT"),
    "tiny": Type("TINYINT"),
    "money": _MONEY,
    "wide": _WIDE,
    "ratio": _FLOAT,
    "size": Type("DOUBLE"),
    "flag": Type("BOOLEAN"),
    "day": _DATE,
    "at": _TIMESTAMP,
}
SCHEMA: Schema = {
    **FLAT,
    "raw": Type("BINARY"),
    "tags": Type("ARRAY", (Type("STRING"),)),
    "sums": Type("ARRAY", (_MONEY,)),
    "counts": Type("MAP", (Type("BIGINT"),)),
    "moments": Type("MAP", (_TIMESTAMP,)),
    "inner": Type(
        "STRUCT",
        fields=(
            ("at", _TIMESTAMP),
            ("wide", _WIDE),
            ("day", _DATE),
            ("ratio", _FLOAT),
            ("tiny", Type("TINYINT")),
            ("list", Type("ARRAY", (_TIMESTAMP,))),
        ),
    ),
}
