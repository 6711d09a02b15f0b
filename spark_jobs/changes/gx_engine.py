"""Has Great Expectations itself compute rules, on Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pyspark.sql import DataFrame

from include.protocol.errors import TerminalError
from include.quality.gx_context import gx_context, to_expectation
from include.quality.suite import Rule, RulePolicy
from include.quality.verdict import RuleResult


def validate(rules: Sequence[Rule], policies: Mapping[str, RulePolicy], rows: DataFrame) -> Iterable[RuleResult]:
    """Great Expectations' own verdict on the rows, in the rules' order.

    Raises:
        TerminalError: it could not compute one.
    """
    import great_expectations as gx

    context = gx_context()
    source = context.data_sources.add_spark("lakemark", persist=False)
    asset = source.add_dataframe_asset("rows").add_batch_definition_whole_dataframe("all")
    batch = asset.get_batch({"dataframe": rows})
    for rule in rules:  # one at a time: it returns the results of a suite in an order of its own
        suite = gx.ExpectationSuite(rule.name, expectations=[to_expectation(rule)])
        [found] = batch.validate(suite, result_format="SUMMARY").results
        if found.exception_info.get("raised_exception"):
            raise TerminalError(
                what="Great Expectations could not compute a rule",
                where=f"rule {rule.name}",
                expected="a verdict",
                found=str(found.exception_info.get("exception_message"))[:1000],
                action="fix the rule in the suite, then rerun the task; nothing landed",
            )
        yield RuleResult(rule, policies[rule.name], bool(found.success), found.to_json_dict()["result"])
