"""Environment variables in a pipeline file: `${NAME}`, and `${NAME:-default}` as in a shell.

Whoever may see a pipeline sees most of its file: in Airflow, on the page, in errors and in the ledger. So a variable
may stand only in a field that declares it (`FromEnvironment`): where the source is, and how to log in there. And it may
be only a variable that is meant for it: the process also has keys of its own. What a variable holds is never shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from include.protocol.errors import Problem
from include.protocol.json_data import JsonMapping, JsonObject

VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]{0,1000}))?\}")
PREFIXES = ("KAFKA_", "LAKEMARK_VAR_")  # of the variables that a file may name
_ANY = "NAME"  # in a place: of a section that people name
MORE_PREFIXES = "LAKEMARK_VARIABLE_PREFIXES"  # a variable with more of them, comma separated

Replace = Callable[[re.Match[str], str], str]  # from the variable and its place in the file to a text


class FromEnvironment:
    """Marks a field in which a variable may stand."""


Variable = Annotated[str, FromEnvironment()]
SecretVariable = Annotated[SecretStr, FromEnvironment()]

Model = TypeVar("Model", bound=BaseModel)


class Written:
    """A file's data as it is written.

    Args:
        data: from YAML. environment: the values of variables; the file's own defaults stand for missing ones.
        model: what the file declares. It says where variables may stand.
    """

    def __init__(self, data: JsonMapping, environment: Mapping[str, str], model: type[BaseModel]) -> None:
        self._data, self._environment, self._places = data, environment, _places(model)
        self._prefixes = (*PREFIXES, *filter(None, re.split(r"[\s,]+", environment.get(MORE_PREFIXES, ""))))

    def interpolated(self) -> JsonObject:
        """The data with the values of the variables."""
        return self._with(lambda name: self._environment[name])

    def shown(self) -> JsonObject:
        """The data for people: values from the environment are shown as `${NAME}`."""
        return self._with(lambda name: f"${{{name}}}")

    def at(self, field: str) -> object:
        """What stands at a place of the file; None if there is nothing."""
        found: object = self._data
        for part in field.split("."):
            if isinstance(found, Mapping):
                found = found.get(part)
            elif isinstance(found, list) and part.isdigit() and int(part) < len(found):
                found = found[int(part)]
            else:
                return None
        return found

    def problems(self) -> list[Problem]:
        """The variables that may not stand where they are, that no file may name, or that are not set."""
        found: list[Problem] = []

        def note(match: re.Match[str], at: str) -> str:
            name, default = match.groups()
            shown = repr(f"${{{name}}}")
            if not self._may_stand(at):
                allowed = f"no variable: those may stand only in {', '.join(sorted(self._places))}"
                found.append(Problem(at, allowed, shown))
            elif not name.startswith(self._prefixes):
                allowed = f"a variable that begins with {' or '.join(self._prefixes)} ({MORE_PREFIXES} allows more)"
                found.append(Problem(at, allowed, shown))
            elif default is None and name not in self._environment:
                found.append(Problem(at, f"the variable {name} set, or a default: ${{{name}:-...}}", "not set"))
            return match.group()

        _replaced(self._data, note)
        return list(dict.fromkeys(found))

    def named(self) -> set[str]:
        """The variables that the file may name, and does."""
        found: set[str] = set()

        def note(match: re.Match[str], at: str) -> str:
            if self._may_stand(at) and match[1].startswith(self._prefixes):
                found.add(match[1])
            return match.group()

        _replaced(self._data, note)
        return found

    def _may_stand(self, at: str) -> bool:
        """Whether a variable may stand at a place of the file."""
        parts = at.split(".")
        return any(_is_at(parts, place.split(".")) for place in self._places)

    def _with(self, held: Callable[[str], str]) -> JsonObject:
        def replace(match: re.Match[str], at: str) -> str:
            name, default = match.groups()
            if not self._may_stand(at) or not name.startswith(self._prefixes):
                return match.group()
            if name in self._environment:
                return held(name)
            return match.group() if default is None else default

        replaced: JsonObject = _replaced(self._data, replace)
        return replaced


def _is_at(parts: Sequence[str], place: Sequence[str]) -> bool:
    return len(parts) == len(place) and all(of in (_ANY, part) for part, of in zip(parts, place, strict=True))


@cache
def _places(model: type[BaseModel]) -> tuple[str, ...]:
    """The fields of a section, and of those within it, in which a variable may stand; `NAME` is any name."""
    return tuple(_declaring(model, ""))


def _declaring(model: type[BaseModel], at: str) -> Iterator[str]:
    for name, info in model.model_fields.items():
        place = f"{at}{info.alias or name}"
        if _declares(info):
            yield place
        for section in _sections(info.annotation):
            named = f"{_ANY}." if get_origin(info.annotation) is Mapping else ""
            yield from _declaring(section, f"{place}.{named}")


def _declares(info: FieldInfo) -> bool:
    """Whether a variable may stand in the field."""
    return any(isinstance(mark, FromEnvironment) for mark in _marks(info.annotation, info.metadata))


def _marks(annotation: Any, metadata: list[Any]) -> Iterator[object]:
    yield from metadata
    for part in get_args(annotation):
        yield from _marks(part, list(getattr(part, "__metadata__", ())))


def _sections(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _sections(part)


def _replaced(value: Any, replace: Replace, at: str = "") -> Any:
    match value:
        case str():
            return VARIABLE.sub(lambda match: replace(match, at), value)
        case dict():
            return {key: _replaced(v, replace, f"{at}.{key}".lstrip(".")) for key, v in value.items()}
        case list():
            return [_replaced(v, replace, f"{at}.{n}") for n, v in enumerate(value)]
        case _:
            return value


def as_shown(model: Model, shown: JsonMapping) -> Model:
    """The checked data for people: where a variable may stand, the text is as in `shown`. (A secret shows itself to
    nobody.)"""
    texts: dict[str, Any] = {}
    for name, info in type(model).model_fields.items():
        value, text = getattr(model, name), shown.get(info.alias or name)
        if isinstance(value, BaseModel) and isinstance(text, Mapping):
            texts[name] = as_shown(value, text)
        elif isinstance(value, Mapping) and isinstance(text, Mapping):
            texts[name] = {
                key: as_shown(one, text[key]) if isinstance(one, BaseModel) and isinstance(text[key], Mapping) else one
                for key, one in value.items()
            }
        elif isinstance(value, str) and isinstance(text, str) and _declares(info):
            texts[name] = text
    return model.model_copy(update=texts)
