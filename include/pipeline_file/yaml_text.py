"""Reads the YAML of pipeline files, in time that grows with the text. Otherwise it could take for ever: a few aliases
can stand for billions of values, and a value that contains itself has no end."""

from __future__ import annotations

import re
from typing import Any

import yaml

_DEPTH_MAX = 50
_VALUES_MAX = 20_000
_DIGITS_MAX = 64
_TEXT_MAX = 100_000
_QUICK = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_CHARACTERS_PER_VALUE = 1_000
_CONTROL = re.compile(r"[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_PLAIN = {
    f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "map", "seq", "timestamp", "merge")
}
_DATE = "tag:yaml.org,2002:timestamp"
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")


class NotTaken(yaml.MarkedYAMLError):
    """Valid YAML that no pipeline file may contain."""

    def __init__(self, allowed: str, found: str, at: yaml.Event | yaml.Node) -> None:
        # The types of PyYAML leave out that the mark may be one of its C reader.
        super().__init__(problem=found, problem_mark=at.start_mark)  # type: ignore[arg-type]
        self.allowed = allowed


def read_yaml(text: str) -> object:
    """The data of a YAML text: plain values, lists and mappings.

    Raises:
        yaml.YAMLError: it is not YAML. NotTaken: a value contains itself, a key occurs twice, or it is too
            large.
    """
    _verify_bounded(text)
    loader = _QUICK(text)
    try:
        root = loader.get_single_node()
        if root is None:
            return None
        _verify_plain(root, loader)
        return loader.construct_document(root)
    except (LookupError, AttributeError, TypeError, ArithmeticError, ValueError) as error:
        # PyYAML raises these for `!!bool maybe` and similar texts.
        raise yaml.MarkedYAMLError(problem="a value that is not what its tag says") from error
    finally:
        loader.dispose()


def _verify_bounded(text: str) -> None:
    """Reads the text event by event, before anything follows an alias or goes deep."""
    sizes: dict[str | None, int | None] = {}  # by anchor, with aliases followed; None while it is not closed
    around: list[tuple[str | None, int]] = []  # open collections, and how many values came before each
    values = 0
    for event in yaml.parse(text, Loader=_QUICK):
        anchor = getattr(event, "anchor", None)
        match event:
            case yaml.AliasEvent():
                size = sizes.get(anchor, 1)  # for a missing anchor, PyYAML has a better error
                if size is None:
                    raise NotTaken("values that do not contain themselves", "an alias of a value around it", event)
                values += size
            case yaml.ScalarEvent():
                if len(event.value) > _TEXT_MAX:
                    raise NotTaken(f"texts of at most {_TEXT_MAX:,} characters", "a longer one", event)
                if _CONTROL.search(event.value):
                    raise NotTaken("texts without control characters", "one with", event)
                size = 1 + len(event.value) // _CHARACTERS_PER_VALUE  # an alias may repeat a long text
                values += size
                sizes[anchor] = size
            case yaml.CollectionStartEvent():
                around.append((anchor, values))
                values += 1
                sizes[anchor] = None
            case yaml.CollectionEndEvent():
                opened, before = around.pop()
                sizes[opened] = values - before
        if len(around) > _DEPTH_MAX:
            raise NotTaken(f"at most {_DEPTH_MAX} levels of nesting", "more", event)
        if values > _VALUES_MAX:
            raise NotTaken(f"at most {_VALUES_MAX:,} values, including those that aliases stand for", "more", event)


def _verify_plain(root: yaml.Node, loader: Any) -> None:
    """Checks that every key occurs once (of two, PyYAML takes the last), that no number is too long to write, and that
    every date exists."""
    seen: set[int] = set()
    left = [root]
    while left:
        node = left.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if node.tag not in _PLAIN:  # a set has no order, and binary data is no text
            raise NotTaken("plain values, lists and sections", "a tag of another kind", node)
        match node:
            case yaml.MappingNode():
                keys: set[tuple[str, str]] = set()
                for key, value in node.value:
                    left += [key, value]
                    if not isinstance(key, yaml.ScalarNode):
                        continue
                    if (key.tag, key.value) in keys:
                        name = key.value if re.fullmatch(r"[\w.<-]{1,63}", key.value) else "a key"
                        raise NotTaken("every key once in its section", f"{name} once more", key)
                    keys.add((key.tag, key.value))
            case yaml.SequenceNode():
                left += node.value
            case yaml.ScalarNode() if node.tag in _NUMBERS and len(node.value) > _DIGITS_MAX:
                raise NotTaken(f"numbers of at most {_DIGITS_MAX} characters", "more", node)
            case yaml.ScalarNode() if node.tag == _DATE:
                try:
                    loader.construct_object(node)
                except ValueError:
                    allowed = "a date that exists; text stands in quotes"
                    raise NotTaken(allowed, "a date that does not exist", node) from None
