"""Variables of the environment in a pipeline file: `${NAME}`, and `${NAME:-default}` as in a shell.

What a variable holds may be a secret in the wrong place. So it is for what the pipeline does; what is told of the file
is made from the text as it is written.
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

Replace = Callable[[re.Match[str], str], str]  # of a variable, and of the place in the file where it stands


Model = TypeVar("Model", bound=BaseModel)


class Written:
    """A file's data as it is written.

    Args:
        data: of YAML. environment: what variables hold; of those that it lacks, the file's own defaults count.
    """

    def __init__(self, data: JsonMapping, environment: Mapping[str, str]) -> None:
        self._data, self._environment = data, environment
        self._tokens: dict[str, str] = {}  # by the variables' names

    def interpolated(self) -> JsonObject:
        """With what the variables hold."""
        return self._with(lambda name: self._environment[name])

    def shown(self) -> JsonObject:
        """For people: what comes from the environment is `${NAME}`."""
        return self._with(lambda name: f"${{{name}}}")

    def masked(self) -> JsonObject:
        """With a word in the place of what each variable holds, so that checks of it say no more than the file does.
        The word is a name, which is allowed at most places; or a number, where the variable holds one."""
        return self._with(self._token)

    def unmasked(self, text: str) -> str:
        """A text about the masked data: variables again in the place of their words."""
        for name, token in self._tokens.items():
            text = text.replace(token, f"${{{name}}}")
        return text

    def at(self, field: str) -> object:
        """What is shown at a place of the file; None if there is nothing."""
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
        """Where variables stand that are not set and have no default: (place, name)."""
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
            self._tokens[name] = f"v{secrets.token_hex(4)}"  # nothing else in the file is called so
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
    """What a checked file holds, for people: its free texts are as `shown` has them. What is a number, a time or one of
    a few words stays as it is, and so do texts that checking has made of others."""
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
    """Whether a field of this type may hold any text, and not one of a few words only."""
    if get_origin(type_) is Literal:
        return False
    return type_ is str or any(map(_is_free, get_args(type_)))
