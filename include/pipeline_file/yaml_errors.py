"""Describes what is wrong with invalid YAML, without showing its text: a password may stand in it."""

from __future__ import annotations

import re


def yaml_problem(error: Exception) -> str:
    """The problem and its place. It shows no lines of the text, as the YAML library does, and no words of it."""
    mark = getattr(error, "problem_mark", None)
    problem = " ".join(filter(None, (getattr(error, "context", None), getattr(error, "problem", None))))
    at = f" in line {mark.line + 1}, column {mark.column + 1}" if mark else ""
    if problem == "while constructing a mapping found unhashable key":
        problem = "a list or a section where a name should be"
    return re.sub(r"'(?!<)[^']{2,}'", "'...'", problem or type(error).__name__) + at
