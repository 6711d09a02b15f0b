"""Says in words what is wrong with a field: pydantic's findings speak of Python's types and of regular expressions."""

from __future__ import annotations

import datetime
import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from include.pipeline_file.section import CONNECTION, NAME, TABLE
from include.pipeline_file.sinks import CLASS, FOLDER, PYTHON_FILE, SQL_TABLE, TOPIC
from include.pipeline_file.transform import FILE_NAME
from include.protocol.errors import Problem

_MOST = (200, 1_000, 200)  # characters that people see of field, allowed, found
_NAME_MAX, _NAMES_MAX = 100, 1_000
NOT_SHOWN = "something else, which is not shown"
_SECRETS = ("password", "source.security", "source.registry")
IN_WORDS = {  # every pattern of a field
    NAME: "a name of lower-case letters, digits and _ that begins with a letter; at most 63",
    TABLE: "a table like lake://silver/orders, of letters, digits and _ - .",
    CONNECTION: "the id of an Airflow connection: letters, digits and _ - .",
    SQL_TABLE: "TABLE or SCHEMA.TABLE, of letters, digits and _ $",
    FOLDER: "an absolute path, or s3://BUCKET/PREFIX",
    PYTHON_FILE: "NAME.py, with a name of lower-case letters, digits and _",
    CLASS: "the name of a class",
    TOPIC: "the name of a topic: letters, digits and _ - .; at most 200",
    FILE_NAME: "NAME.sql or NAME.py, with a name of lower-case letters, digits and _",
}
_KINDS = {
    "string_type": "text",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a smaller number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a number",
    "tuple_type": "a list",
    "dict_type": "a section (NAME: VALUE)",
    "mapping_type": "a section (NAME: VALUE)",
    "invalid_key": "names that are text, in quotes if they look like something else",
}


def problem_of(details: ErrorDetails, model: type[BaseModel]) -> Problem:
    """The problem that one of pydantic's findings is.

    Args:
        model: what was checked, which knows the names of fields.
    """
    context = details.get("ctx", {})
    field = context.get("field") or ".".join(str(part) for part in details["loc"] if part != "[key]") or "file"
    found, is_found_by_check = context.get("found", details["input"]), "found" in context
    allowed = _allowed(details, context, model)
    match details["type"]:
        case "extra_forbidden":
            return Problem(field, allowed, "an unknown field")
        case "missing":
            return Problem(field, allowed, "nothing")
        case "address":
            return Problem(field, allowed, NOT_SHOWN)
        case "invalid_key":
            return Problem(".".join(map(str, details["loc"][:-1])) or "file", allowed, shown(found))
    if field.endswith(_SECRETS) and not is_found_by_check and not isinstance(found, list | None):
        return Problem(field, allowed, NOT_SHOWN)
    return Problem(field, allowed, shown(found))


def told(problem: Problem) -> Problem:
    """The problem for people: not too long, and without a login."""
    parts = (part.encode(errors="backslashreplace").decode() for part in problem)
    return Problem(*(_short(_without_logins(part), most) for part, most in zip(parts, _MOST, strict=True)))


def near(name: str, known: Sequence[str]) -> str:
    """A hint for a name that is none of those that are known; empty if none is like it."""
    if len(name) > _NAME_MAX or len(known) > _NAMES_MAX:  # to compare takes time by both
        return ""
    same = [one for one in known if one.lower() == name.lower()]
    found = same or difflib.get_close_matches(name, known, n=1)
    return f" (did you mean {found[0]}?)" if found else ""


def shown(value: object) -> str:
    """A value of YAML, as people call it."""
    match value:
        case None:
            return "nothing"
        case bool():
            return str(value).lower()
        case datetime.date():
            return f"the date {value}; text stands in quotes: '{value}'"
        case bytes():
            return "binary data"
        case Mapping():
            return "a section"
        case list() | tuple():
            return "a list"
        case set():
            return "a set"
        case _:
            return repr(value)


def _without_logins(text: str) -> str:
    """The text, with dots in place of each word like `user:password@host`."""
    return re.sub(r"\S+", lambda word: "..." if "@" in word[0].partition(":")[2] else word[0], text)


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}... ({len(text):,} characters)"


def _allowed(details: ErrorDetails, context: Mapping[str, Any], model: type[BaseModel]) -> str:
    kind = details["type"]
    match kind:
        case "extra_forbidden":
            known = _fields_at(model, details["loc"][:-1])
            return f"one of {', '.join(known)}{near(str(details['loc'][-1]), known)}"
        case "missing":
            return "a value; the field is required"
        case "literal_error":
            return str(context["expected"])
        case "model_type" | "model_attributes_type":
            return f"a section, with {', '.join(_fields_at(model, details['loc']))}"
        case "string_pattern_mismatch":
            return IN_WORDS[context["pattern"]]
        case "greater_than_equal":
            return f"{context['ge']:g} or more"
        case "less_than_equal":
            return f"at most {context['le']:,g}"
        case "greater_than":
            return f"more than {context['gt']:g}"
        case "too_short" | "too_long":
            return f"a list of at {'least' if kind == 'too_short' else 'most'} {_entries(context)}"
        case "string_too_short":
            return f"text of at least {context['min_length']} characters" if context["min_length"] > 1 else "text"
        case "string_too_long":
            return f"text of at most {context['max_length']:,} character{'s' * (context['max_length'] > 1)}"
        case _:
            return _KINDS.get(kind) or details["msg"].removeprefix("Input should be ")


def _entries(context: Mapping[str, Any]) -> str:
    number = context.get("min_length", context.get("max_length"))
    return f"{number:,} entr{'y' if number == 1 else 'ies'}"


def _fields_at(model: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    at: Any = model
    for part in location:
        if isinstance(part, int):  # an index of a list, whose type names the items
            continue
        if isinstance(at, type) and issubclass(at, BaseModel):
            at = next(f for n, f in at.model_fields.items() if (f.alias or n) == part).annotation
            if get_origin(at) is Mapping:  # of sections that people name: the name comes next
                continue
        at = _section_in(at)
    return [field.alias or name for name, field in at.model_fields.items()]


def _section_in(annotation: Any) -> Any:
    """The section that a type is, or that one of its parts is."""
    if isinstance(annotation, type):
        return annotation
    found = (_section_in(part) for part in get_args(annotation) if part not in (type(None), ..., str))
    return next((one for one in found if isinstance(one, type)), annotation)
