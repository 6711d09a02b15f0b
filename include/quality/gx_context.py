"""Great Expectations, as Lakemark uses it: in memory, silent, and without reports to its makers. Importing it takes
seconds, so its types are `Any` here.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from include.protocol.json_data import JsonMapping
from include.quality.suite import Rule, Suite, suite_error


def gx_context() -> Any:
    """A context of its own that keeps nothing, sends no usage statistics and draws no progress bars."""
    os.environ["GX_ANALYTICS_ENABLED"] = "false"  # read at the first import
    import great_expectations as gx
    from great_expectations.data_context.types.base import ProgressBarsConfig

    context = gx.get_context(mode="ephemeral")
    context.variables.analytics_enabled = False
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    return context


def verify_with_gx(path: Path, suite: Suite) -> None:
    """Lets Great Expectations check the names and types of a suite's arguments.

    Raises:
        SuiteError: it does not accept one of the rules.
    """
    gx_context()
    for rule in suite.rules:
        try:
            to_expectation(rule)
        except Exception as error:  # its own, and those of the pydantic that it brings along
            found = "; ".join(line.strip() for line in str(error).splitlines()[1:]) or str(error)
            raise suite_error(path, f"rule {rule.name}", f"what {rule.type} takes", found) from error


def to_expectation(rule: Rule) -> Any:
    """The rule as Great Expectations' own object. Raises its ValidationError for wrong arguments.

    Needs a context: make one first.
    """
    return configuration(rule.config).to_domain_obj()


def configuration(config: JsonMapping) -> Any:
    """Great Expectations' own configuration of an expectation, from the expectation as it was written."""
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration

    known = ("type", "kwargs", "meta", "description", "severity", "notes")
    return ExpectationConfiguration(**{name: config[name] for name in known if name in config})
