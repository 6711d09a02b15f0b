"""Has Great Expectations itself compute rules, on Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pyspark.sql import DataFrame

from include.protocol.errors import TerminalError
from include.protocol.json_data import JsonMapping, JsonObject
from include.quality.gx_context import gx_context, to_expectation
from include.quality.sql import row_condition
from include.quality.suite import Rule, RulePolicy
from include.quality.verdict import RuleResult
from spark_jobs.changes.conditions import holds

_OF_ROWS = ("unexpected_", "partial_unexpected_", "missing_")


def validate(rules: Sequence[Rule], policies: Mapping[str, RulePolicy], rows: DataFrame) -> Iterable[RuleResult]:
    """Great Expectations' own verdict on the rows, in the rules' order.

    Raises:
        TerminalError: it could not compute one.
    """
    import great_expectations as gx

    context = gx_context()
    source = context.data_sources.add_spark("lakemark", persist=False)
    asset = source.add_dataframe_asset("rows").add_batch_definition_whole_dataframe("all")
    for rule in rules:  # one at a time: it returns the results of a suite in an order of its own
        condition = row_condition(rule.kwargs)
        about = rows if condition == "true" else rows.where(holds(condition))
        suite = gx.ExpectationSuite(rule.name, expectations=[to_expectation(rule.of_all_rows)])
        [found] = asset.get_batch({"dataframe": about}).validate(suite, result_format="SUMMARY").results
        if (why := _raised(found.exception_info)) is not None:
            rows.sparkSession.range(1).count()  # raises if Spark is gone: then the rule is not to blame
            raise TerminalError(
                what="Great Expectations could not compute a rule",
                where=f"rule {rule.name}",
                expected="a verdict",
                found="an error, which the task's log has",
                action="fix the rule in the suite, then clear the task with what follows it; nothing landed",
                evidence=why[:1000],  # it may quote a record
            )
        yield RuleResult(rule, policies[rule.name], bool(found.success), _told(found.to_json_dict()["result"]))


def _raised(info: JsonMapping) -> str | None:
    """What an exception said; None if there was none. The exceptions of metrics stand under the metrics' names."""
    for one in (info, *(part for part in info.values() if isinstance(part, Mapping))):
        if one.get("raised_exception"):
            return str(one.get("exception_message"))
    return None


def _told(result: JsonObject) -> JsonObject:
    """A result as Lakemark's own rules tell theirs. Some rules about a figure also count values, which are no rows."""
    if "element_count" in result:
        return result
    return {name: value for name, value in result.items() if not name.startswith(_OF_ROWS)}
