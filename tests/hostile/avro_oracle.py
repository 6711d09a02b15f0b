"""What a record of Avro is, by Avro's specification (1.12, "Logical Types") and Lakemark's documentation."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from typing import Any

from tests.hostile import oracle
from tests.hostile.avro_reader import Avro, Held, Reader, moment_unit, unframed
from tests.hostile.oracle import Doubtful, NoRow, Row, Unclear
from tests.hostile.types import INTEGERS, Schema, Type

_TRUTHS = {"t", "y", "yes", "1", "f", "n", "no", "0", "true", "false"}  # to some readers
UNAVAILABLE = "__debezium_unavailable_value"  # Debezium's word: the column is as it was


def avro_row(value: bytes | None, schemas: dict[int, Avro], columns: Schema, unit: str | None) -> Row:
    """Args: schemas: by id. unit: what a bare number is that stands for a TIMESTAMP."""
    schema, bare = unframed(value, schemas)
    return row_of(Reader(bare).read(schema).value, columns, unit)


def debezium_row(value: bytes | None, schemas: dict[int, Avro], columns: Schema, unit: str) -> Row | None:
    """The row of an envelope. None: it is no change of a row. A row of nulls: a delete that does not hold its key."""
    if value is None:
        return None
    schema, bare = unframed(value, schemas)
    fields = Reader(bare).read(schema).value
    op = oracle.text_of(fields["op"].value)
    if op == "m":
        try:
            for name in ("before", "after"):
                row_of(fields[name].value or {}, columns, unit)
        except (NoRow, Unclear) as error:
            raise Unclear from error  # a reader that reads all of the record may fail
        return None
    if op not in ("c", "u", "r", "d"):
        raise NoRow("no change of a row")
    image, other = (fields[name].value for name in (("before", "after") if op == "d" else ("after", "before")))
    if image is None and op != "d":
        raise NoRow("no row in `after`")
    # A delete needs no more than its key and its place in the order.
    asked = columns if op != "d" else {name: type_ for name, type_ in columns.items() if name in ("id", "seq")}
    try:
        row = _sent(row_of(image or {}, asked, unit))
    except Doubtful as doubt:
        raise Doubtful(_sent(doubt.row)) from doubt
    try:
        for part in (image, other):
            row_of(part or {}, columns, unit)
    except (NoRow, Unclear) as error:
        raise Doubtful(row) from error  # a reader that reads all of the record may fail
    return row


def key_of(key: bytes | None, number: int, schema: Avro, name: str) -> Any:
    """A field of Kafka's key; None if the key cannot be read."""
    try:
        _, bare = unframed(key, {number: schema})
        return Reader(bare).read(schema).value[name].value
    except NoRow:
        return None


def row_of(fields: dict[str, Held], columns: Schema, unit: str | None) -> Row:
    """The declared columns of a record's fields; raises Doubtful if any is."""
    doubtful, row = False, {}
    for name, type_ in columns.items():
        try:
            row[name] = of_avro(fields.get(name, Held("null", None)), type_, unit)
        except Doubtful as found:
            doubtful, row[name] = True, found.row
    if doubtful:
        raise Doubtful(row)
    return row


def of_avro(held: Held, type_: Type, unit: str | None) -> Any:
    """A value as its declared type; raises NoRow, or Doubtful with the value if a reader may as well refuse it."""
    value, kind = held.value, held.kind
    if value is None:
        return None
    if isinstance(value, list | dict):
        try:
            return _of_parts(held, type_, unit)
        except Doubtful as found:
            raise Unclear from found
    if type_.word in ("ARRAY", "MAP", "STRUCT"):
        raise NoRow(f"{kind} for {type_.word}")
    if kind == "decimal":
        return _of_decimal(held, type_)
    if kind in ("date", "org.apache.kafka.connect.data.Date", "io.debezium.time.Date"):
        return _of_day(value, type_, is_bare=kind != "date")
    if of_moments := moment_unit(kind):
        return _of_moment(value, of_moments, type_, kind)
    match held.schema["type"] if isinstance(held.schema, dict) else held.schema:
        case "boolean":
            if type_.word == "STRING":
                return "true" if value else "false"
            if type_.word != "BOOLEAN":
                raise NoRow("a boolean")
            return value
        case "int" | "long" as word:
            return _of_whole(value, type_, unit, is_bare=kind == word)
        case "float" | "double" as word:
            return _of_floating(value, type_, word)
        case "string" | "enum":
            return value if type_.word == "BINARY" else _of_text(value, type_, unit)
        case _:  # bytes, fixed
            if type_.word == "BINARY":
                return value
            if type_.word == "STRING":
                return oracle.text_of(value)
            raise NoRow(f"bytes for {type_.word}")


def _of_parts(held: Held, type_: Type, unit: str | None) -> Any:
    value, kind = held.value, held.schema["type"]
    match type_.word:
        case "ARRAY" if kind == "array":
            return [of_avro(item, type_.parts[0], unit) for item in value]
        case "MAP" if kind == "map":
            return {oracle.text_of(name): of_avro(item, type_.parts[0], unit) for name, item in value.items()}
        case "STRUCT" if kind == "record":
            return {name: of_avro(value.get(name, Held("null", None)), inner, unit) for name, inner in type_.fields}
        case "DECIMAL" if kind == "record" and {"scale", "value"} <= value.keys():
            return _of_variable_scale(value, type_)
        case _:
            raise NoRow(f"{kind} for {type_.word}")


def _of_text(value: bytes, type_: Type, unit: str | None) -> Any:
    text = oracle.text_of(value)
    if type_.word == "TIMESTAMP" and text.lstrip("-").isdecimal():
        raise Unclear  # whose unit is it?
    if type_.word == "BOOLEAN" and text.strip().lower() in _TRUTHS and text not in ("true", "false"):
        raise Unclear
    return oracle.of_text(text, type_, unit)


def _of_whole(value: int, type_: Type, unit: str | None, is_bare: bool) -> Any:
    """Args: is_bare: its schema does not say what it counts."""
    match type_.word:
        case word if word in INTEGERS or word == "DECIMAL":
            return (
                oracle.integer(str(value), INTEGERS[word]) if word in INTEGERS else oracle.as_decimal(str(value), type_)
            )
        case "STRING":
            return str(value)
        case "FLOAT" | "DOUBLE" as word:
            found = oracle.as_float(str(value)) if word == "FLOAT" else float(value)
            if int(found) != value:
                raise NoRow("a number that floats do not have")
            return found
        case "BOOLEAN" if value in (0, 1):
            return value == 1
        case "DATE" if is_bare:
            return _of_day(value, type_, is_bare)
        case "TIMESTAMP" if is_bare and unit is not None:
            return oracle.moment(value, unit)
        case _:
            raise NoRow(f"a number for {type_.word}")


def _of_floating(value: float, type_: Type, word: str) -> Any:
    is_finite = value - value == 0
    match type_.word:
        case "DOUBLE":
            return value
        case "FLOAT":
            return oracle.as_float(repr(value)) if is_finite else value
        case "STRING":
            return Written(value, word)
        case integer if integer in INTEGERS and is_finite and value == int(value):
            return oracle.integer(str(int(value)), INTEGERS[integer])
        case "DECIMAL" if is_finite:
            found, as_written = (_rounded(number, type_) for number in (Decimal(value), Decimal(repr(value))))
            if found != as_written:
                raise Unclear
            return found
        case _:
            raise NoRow(f"a floating number for {type_.word}")


def _rounded(value: Decimal, type_: Type) -> Decimal:
    found = value.quantize(Decimal(1).scaleb(-type_.scale), ROUND_HALF_UP, oracle.EXACT)
    if found.copy_abs() >= 10 ** (type_.precision - type_.scale):
        raise NoRow(f"beyond {type_.ddl}: {value:.3e}")
    return found


def _of_decimal(held: Held, type_: Type) -> Any:
    if not held.value:
        raise NoRow("no bytes of a decimal")
    number = int.from_bytes(held.value, "big", signed=True)
    found = _decimal_as(_scaled(number, held.schema.get("scale", 0)), type_)
    if abs(number) >= 10 ** held.schema["precision"]:
        raise Doubtful(found)
    return found


def _scaled(number: int, scale: int) -> Decimal:
    return Decimal(number).scaleb(-scale, oracle.EXACT)


def _decimal_as(value: Decimal, type_: Type) -> Any:
    match type_.word:
        case "DECIMAL":
            return _rounded(value, type_)
        case "DOUBLE":
            return float(value)
        case "FLOAT":
            return oracle.as_float(repr(float(value)))
        case "STRING":
            return Written(value, "decimal")
        case word if word in INTEGERS and value == value.to_integral_value(ROUND_HALF_EVEN, oracle.EXACT):
            return oracle.integer(f"{value:.0f}", INTEGERS[word])
        case _:
            raise NoRow(f"a decimal for {type_.word}")


def _of_variable_scale(value: dict[str, Held], type_: Type) -> Decimal | None:
    scale, digits = value["scale"], value["value"]
    if type(scale.value) is not int or type(digits.value) is not bytes or scale.kind != "int" or digits.kind != "bytes":
        raise Unclear
    if not 1 <= len(digits.value) <= 16:
        raise NoRow("no bytes of a decimal")
    if abs(scale.value) > 30:
        raise Unclear  # readers may refuse so many places
    return _rounded(_scaled(int.from_bytes(digits.value, "big", signed=True), scale.value), type_)


def _of_day(days: int, type_: Type, is_bare: bool) -> Any:
    """Args: is_bare: a program that does not know what it stands for takes it for a number."""
    if type_.word in INTEGERS and is_bare:
        raise Doubtful(oracle.integer(str(days), INTEGERS[type_.word]))
    if type_.word not in ("DATE", "TIMESTAMP", "STRING") or (type_.word == "STRING" and is_bare):
        raise Unclear if is_bare else NoRow(f"a day for {type_.word}")
    try:
        found = oracle.moment(days * 86_400, "seconds")
    except NoRow as error:
        raise Unclear if type_.word == "STRING" else error  # noqa: B904
    if type_.word == "TIMESTAMP":
        if is_bare:
            raise Doubtful(found)
        return found
    return found.date() if type_.word == "DATE" else str(found.date())


def _of_moment(count: int, unit: str, type_: Type, kind: str) -> Any:
    is_bare = "." in kind or "nanos" in kind  # a program that does not know these takes them for numbers
    match type_.word:
        case "TIMESTAMP":
            return oracle.moment(count, unit)
        case "STRING" if not is_bare:
            try:
                raise Doubtful(Written(oracle.moment(count, unit), "moment"))
            except NoRow as error:
                raise Unclear from error
        case word if word in INTEGERS and is_bare:
            raise Doubtful(oracle.integer(str(count), INTEGERS[word]))
        case "DATE" | "BINARY":
            raise NoRow(f"a moment for {type_.word}")
        case _ if is_bare:
            raise Unclear
        case _:
            raise NoRow(f"a moment for {type_.word}")


@dataclass(frozen=True)
class Written(oracle.Text):
    """A text that stands for this number or moment."""

    value: Any
    word: str

    def is_said_by(self, text: str) -> bool:
        if self.word == "moment":
            return datetime.fromisoformat(text).replace(tzinfo=UTC) == self.value
        if self.word == "decimal":
            return Decimal(text) == self.value
        found = float(text)
        if self.word == "float":
            found = oracle.as_float(text)
        return found == self.value or (found != found and self.value != self.value)


def _sent(row: Row) -> Row:
    return {name: None if column in (UNAVAILABLE, [UNAVAILABLE]) else column for name, column in row.items()}
