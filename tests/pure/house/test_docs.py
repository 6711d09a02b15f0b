"""The documents lead somewhere: every link within the project is there, and so is every file, folder and test of the
code that they name."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import pytest

from include.settings import PROJECT_ROOT

DOCUMENTS = [*sorted(PROJECT_ROOT.glob("*.md")), *sorted((PROJECT_ROOT / "docs").rglob("*.md"))]

_FENCE = re.compile(r"^ *(```|~~~).*?^ *\1 *$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_CODE = re.compile(r"`([^`]+)`")
_LINK = re.compile(r"\[[^\[\]]*\]\(([^()\s]+)\)")
_IMAGE = re.compile(r"!\[[^\[\]]*\]\([^()\s]+\)")  # in the text of a link
_HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)
_PLACE = re.compile(r"(?<![\w./-])(?:include|spark_jobs|plugins|dags|tests)/[\w./*-]*")
_PLACEHOLDER = re.compile(r"\bNAME\b")  # `include/pipelines/NAME.yaml`
_TEST = re.compile(r"(?:(?<![\w./-])([\w./-]+\.py)::)?\b(test_\w+(?:\.py)?)\b(?!\.\.\.)")
_DEFINED = re.compile(r"^ *(?:async )?def (test_\w+)", re.MULTILINE)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(PROJECT_ROOT).as_posix())
def test_every_link_leads_to_a_file_and_to_a_heading_in_it(document: Path) -> None:
    assert [link for link in links(document) if not leads_somewhere(document, link)] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(PROJECT_ROOT).as_posix())
def test_every_file_and_folder_of_code_that_is_named_is_there(document: Path) -> None:
    named = sorted({place for code in _CODE.findall(prose(document)) for place in _PLACE.findall(code)})
    assert [place for place in named if not _PLACEHOLDER.search(place) and not any(PROJECT_ROOT.glob(place))] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(PROJECT_ROOT).as_posix())
def test_every_test_that_is_named_is_there(document: Path) -> None:
    """A test is named alone, or with its file; the file is named by its path, or by its name."""
    named = sorted({pair for code in _CODE.findall(prose(document)) for pair in _TEST.findall(code)})
    assert [(file, test) for file, test in named if not is_test(test, file)] == []


def test_anchors_are_made_from_headings_as_github_makes_them() -> None:
    text = "# What a commit says\n## `_lakemark`, of rows\n## 6. Fast & [safe](x.md): 2×\n## A\n```\n# B\n```\n## A\n"
    made = {"what-a-commit-says", "_lakemark-of-rows", "6-fast--safe-2", "a", "a-1"}
    assert anchors(_FENCE.sub("", text)) == made


def prose(document: Path) -> str:
    """A document without its blocks of code and its comments."""
    return _COMMENT.sub("", _FENCE.sub("", text_of(document)))


def links(document: Path) -> Iterator[str]:
    """Every link that stays within the project."""
    text = _CODE.sub("", prose(document))
    for target in dict.fromkeys((*_LINK.findall(text), *_LINK.findall(_IMAGE.sub("", text)))):
        if not re.match(r"[a-z]+:", target):
            yield target


def leads_somewhere(document: Path, link: str) -> bool:
    name, _, anchor = unquote(link).partition("#")
    file = (document.parent / name).resolve() if name else document
    if not file.exists():
        return False
    return not anchor or (file.suffix == ".md" and anchor in anchors(prose(file)))


def anchors(text: str) -> set[str]:
    """A document's anchors, as GitHub makes them from its headings: small letters, no punctuation, dashes for blanks; a
    heading that occurs again gets a number."""
    seen: Counter[str] = Counter()
    found = set()
    for heading in _HEADING.findall(text):
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")
        found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return found


def is_test(name: str, file: str) -> bool:
    """Whether a test, or a file of tests, has that name. If `file` is not empty, the test must be in it."""
    found = [place for place, names in names_by_file().items() if name in names]
    return any(not file or f"/{place}".endswith(f"/{file}") for place in found)


@cache
def names_by_file() -> dict[str, set[str]]:
    """By path within the project: the tests that the file defines, and the file's own name."""
    return {
        file.relative_to(PROJECT_ROOT).as_posix(): {file.name, *_DEFINED.findall(file.read_text())}
        for file in (PROJECT_ROOT / "tests").rglob("test_*.py")
    }


@cache
def text_of(document: Path) -> str:
    return document.read_text()
