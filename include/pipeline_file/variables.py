"""Environment variables in a pipeline file: `${NAME}`, and `${NAME:-default}` as in a shell.

A variable may hold a secret that stands in the wrong place. So only the pipeline's work uses its value. Everything that
people read about the file is made from the text as it is written.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar, get_args, get_origin

from pydantic import BaseModel

from include.protocol.json_data import JsonMapping, JsonObject

VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_NUMBER = re.compile(r"\s*[-+]?\d+(\.\d+)?\s*")

Replace = Callable[[re.Match[str], str], str]  # from the variable and its place in the file to a text


Model = TypeVar("Model", bound=BaseModel)


class Written:
    """A file's data as it is written.

    Args:
        data: from YAML. environment: the values of variables; the file's own defaults stand for missing ones.
    """

    def __init__(self, data: JsonMapping, environment: Mapping[str, str]) -> None:
        self._data, self._environment = data, environment
        self._tokens: dict[str, str] = {}  # by the variables' names

    def interpolated(self) -> JsonObject:
        """The data with the values of the variables."""
        return self._with(lambda name: self._environment[name])

    def shown(self) -> JsonObject:
        """The data for people: values from the environment are shown as `${NAME}`."""
        return self._with(lambda name: f"${{{name}}}")

    def masked(self) -> JsonObject:
        """The data with a word in place of each variable's value, so that checks of it reveal no more than the file
        does. The word is a name, which most places allow; or a number, if the variable holds one."""
        return self._with(self._token)

    def unmasked(self, text: str) -> str:
        """A text about the masked data, with the variables again in place of their words."""
        for name, token in self._tokens.items():
            text = text.replace(token, f"${{{name}}}")
        return text

    def at(self, field: str) -> object:
        """What `shown` has at a place of the file; None if there is nothing."""
        found: object = self.shown()
        for part in field.split("."):
            if isinstance(found, Mapping):
                found = found.get(part)
            elif isinstance(found, list) and part.isdigit() and int(part) < len(found):
                found = found[int(part)]
            else:
                return None
        return found

    def missing(self) -> list[tuple[str, str]]:
        """The variables that are not set and have no default, as (place, name)."""
        found: list[tuple[str, str]] = []

        def note(match: re.Match[str], at: str) -> str:
            if match[1] not in self._environment and match[2] is None:
                found.append((at, match[1]))
            return match.group()

        _replaced(self._data, note)
        return found

    def _with(self, held: Callable[[str], str]) -> JsonObject:
        replaced: JsonObject = _replaced(self._data, self._own_default(held))
        return replaced

    def _own_default(self, held: Callable[[str], str]) -> Replace:
        def replace(match: re.Match[str], at: str) -> str:
            name, default = match.groups()
            if name in self._environment:
                return held(name)
            return match.group() if default is None else default

        return replace

    def _token(self, name: str) -> str:
        if _NUMBER.fullmatch(self._environment[name]):
            return "1"
        if name not in self._tokens:
            self._tokens[name] = f"v{secrets.token_hex(4)}"  # no other text in the file is equal to it
        return self._tokens[name]


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
    """The checked data for people: free texts are as in `shown`. Numbers, times and values that are one of a few words
    stay as they are, and so do texts that the check has made from others."""
    fields = {name: (info.alias or name, info.annotation) for name, info in type(model).model_fields.items()}
    texts = {
        name: _as_shown(getattr(model, name), shown[key], annotation)
        for name, (key, annotation) in fields.items()
        if key in shown
    }
    return model.model_copy(update=texts)


def _as_shown(value: object, shown: object, type_: object) -> object:
    match value, shown:
        case BaseModel(), Mapping():
            return as_shown(value, shown)
        case Mapping(), Mapping():
            return {key: _as_shown(v, shown.get(key), type_) for key, v in value.items()}
        case tuple(), list() if len(value) == len(shown):
            return tuple(_as_shown(v, s, type_) for v, s in zip(value, shown, strict=True))
        case str(), str() if _is_free(type_):
            return shown
    return value


def _is_free(type_: object) -> bool:
    """Whether a field of this type may hold any text, not only one of a few words."""
    if get_origin(type_) is Literal:
        return False
    return type_ is str or any(map(_is_free, get_args(type_)))
