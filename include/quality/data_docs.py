"""Great Expectations' Data Docs for the results of suites: its own static site, one page per judgement and suite.

Great Expectations makes the pages. They fetch scripts and style sheets from other hosts. Many networks forbid that, and
it tells those hosts who reads the pages. So those lines are removed, a style sheet of our own is added, and the index,
which a script would draw, is written as plain HTML.
"""

from __future__ import annotations

import html
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from include.lake.delta_tables import Row
from include.pipeline_file import Pipeline
from include.pipeline_file.tables import Tables
from include.protocol.json_data import JsonObject
from include.quality.evidence import judgements
from include.quality.gx_context import configuration, gx_context
from include.settings import Settings

INDEX = "index.html"
OWN_FOLDERS = ("expectations", "validations")  # of the site: all pages but the index are in these
_SITE = "lakemark"
_STYLE = Path(__file__).with_name("data_docs.css")
_FOREIGN = re.compile(
    r'<link[^>]*href="https?://[^"]*"[^>]*>|<img[^>]*src="https?://[^"]*"[^>]*>|<script\b.*?</script>|<footer>.*?</footer>',
    re.DOTALL,
)


@dataclass(frozen=True)
class _Judgement:
    """All rows of one judgement."""

    pipeline: str
    rows: Sequence[Row]

    @property
    def suite(self) -> str:
        """The name of its suite in the site, where several pipelines may use suites of the same name."""
        return f"{self.pipeline}.{self.rows[0]['suite']}"

    @property
    def subject(self) -> str:
        """What was judged."""
        first = self.rows[0]
        if first["batch_id"] is None:
            return f"version {first['table_version']}"
        generation, number = first["generation"], first["batch_id"]
        if generation < 0:
            return f"backfill {-generation} chunk {number}"
        return f"batch {number}" if generation == 1 else f"generation {generation} batch {number}"


def build(settings: Settings, pipelines: Iterable[Pipeline], folder: Path, newest: int) -> Path:
    """Builds the site in a folder, replaces what was there, and returns its index.

    Args:
        newest: how many judgements of each pipeline it shows, the newest ones.

    Raises:
        TableDamaged: see `open_table`.
    """
    from great_expectations.core.run_identifier import RunIdentifier
    from great_expectations.data_context.types.resource_identifiers import (
        ExpectationSuiteIdentifier,
        ValidationResultIdentifier,
    )

    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as scratch:
        site = Path(scratch) / "site"
        context = gx_context()
        context.add_data_docs_site(_SITE, _site_builder(site))
        links: list[tuple[_Judgement, str]] = []
        suites: dict[str, tuple[_Judgement, str]] = {}
        for judgement in _newest(settings, pipelines, newest):
            suite = ExpectationSuiteIdentifier(name=judgement.suite)
            suites[judgement.suite] = judgement, "/".join(("expectations", *suite.to_tuple())) + ".html"
            run = RunIdentifier(run_name=judgement.subject.replace(" ", "-"), run_time=judgement.rows[0]["judged_at"])
            identifier = ValidationResultIdentifier(
                expectation_suite_identifier=suite,
                run_id=run,
                batch_identifier=judgement.rows[0]["attempt_id"],
            )
            context.validation_results_store.set(identifier, _result(judgement, run))
            links.append((judgement, "/".join(("validations", *identifier.to_tuple())) + ".html"))
        for judgement, _ in suites.values():
            context.suites.add(_suite(judgement))
        context.build_data_docs(site_names=[_SITE])
        for page in site.rglob("*.html"):
            page.write_text(_readable(page.read_text(), os.path.relpath(site, page.parent)))
        shutil.copy(_STYLE, site / "lakemark.css")
        (site / INDEX).write_text(_index(reversed(links), {name: link for name, (_, link) in suites.items()}))
        if folder.exists():
            folder.rename(Path(scratch) / "before")
        site.rename(folder)
    return folder / INDEX


def _newest(settings: Settings, pipelines: Iterable[Pipeline], newest: int) -> list[_Judgement]:
    """The newest judgements of every pipeline, oldest first."""
    found: list[_Judgement] = []
    for pipeline in pipelines:
        by_attempt: dict[str, list[Row]] = {}
        for row in judgements(Tables.of(settings, pipeline).quality):
            by_attempt.setdefault(row["attempt_id"], []).append(row)
        found += [_Judgement(pipeline.name, rows) for rows in list(by_attempt.values())[-newest:]]
    return sorted(found, key=lambda judgement: judgement.rows[0]["judged_at"])


def _site_builder(site: Path) -> JsonObject:
    return {
        "class_name": "SiteBuilder",
        "show_how_to_buttons": False,
        "store_backend": {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(site)},
        "site_index_builder": {"class_name": "DefaultSiteIndexBuilder"},
    }


def _suite(judgement: _Judgement) -> Any:
    import great_expectations as gx

    expectations = [configuration(row["config"]).to_domain_obj() for row in judgement.rows]
    return gx.ExpectationSuite(judgement.suite, expectations=expectations)


def _result(judgement: _Judgement, run: Any) -> Any:
    """The judgement, as Great Expectations would have returned it."""
    from great_expectations.core import ExpectationSuiteValidationResult, ExpectationValidationResult

    quiet = {"raised_exception": False, "exception_traceback": None, "exception_message": None}
    results = [
        ExpectationValidationResult(
            success=row["success"],
            expectation_config=configuration(row["config"]),
            result=_shown(row),
            exception_info=quiet,
        )
        for row in judgement.rows
    ]
    held, all_rules = sum(row["success"] for row in judgement.rows), len(judgement.rows)
    return ExpectationSuiteValidationResult(
        success=held == all_rules,
        results=results,
        suite_name=judgement.suite,
        suite_parameters={},
        statistics={
            "evaluated_expectations": all_rules,
            "successful_expectations": held,
            "unsuccessful_expectations": all_rules - held,
            "success_percent": held / all_rules * 100,
        },
        meta={
            "great_expectations_version": version("great-expectations"),
            "run_id": run.to_json_dict(),
            "batch_kwargs": {"data_asset_name": judgement.pipeline},  # which the page looks for
            "active_batch_definition": {
                "datasource_name": "lakemark",
                "data_connector_name": "kafka",
                "data_asset_name": judgement.pipeline,
                "batch_identifiers": {"batch": judgement.subject, "attempt": judgement.rows[0]["attempt_id"]},
            },
        },
    )


def _shown(row: Row) -> JsonObject:
    """A result, as Great Expectations' page for its kind of rule reads it."""
    if row["expectation"] != "unexpected_rows_expectation":
        return dict(row["result"])
    return {"observed_value": row["unexpected_count"], "details": {"unexpected_rows": row["sample"]}}


def _readable(page: str, to_site: str) -> str:
    """A page without anything from another host."""
    own = f'<link rel="stylesheet" href="{to_site}/lakemark.css">'
    return _FOREIGN.sub("", page).replace("</head>", f"{own}</head>", 1)


def _index(links: Iterable[tuple[_Judgement, str]], suites: Mapping[str, str]) -> str:
    """The first page: every judgement, the newest first; and the suites' links by name."""

    def row(judgement: _Judgement, link: str) -> str:
        first = judgement.rows[0]
        broken = sum(not r["success"] for r in judgement.rows)
        cells = (
            first["judged_at"].strftime("%Y-%m-%d %H:%M:%S UTC"),
            html.escape(judgement.pipeline),
            f'<a href="{html.escape(link)}">{html.escape(judgement.subject)}</a>',
            f'<span class="{html.escape(first["outcome"])}">{html.escape(first["outcome"])}</span>',
            f"{broken} of {len(judgement.rows)}",
        )
        return f'<tr id="{first["attempt_id"]}">' + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"

    rows = "\n".join(row(judgement, link) for judgement, link in links)
    names = "\n".join(
        f'<li><a href="{html.escape(link)}">{html.escape(name)}</a></li>' for name, link in sorted(suites.items())
    )
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Data quality</title>
<meta name="viewport" content="width=device-width"><link rel="stylesheet" href="lakemark.css"></head>
<body><h1>Data quality</h1>
<p class="quiet">The results of suites, the newest first. The linked pages are Great Expectations' Data Docs.</p>
<table><thead><tr><th>judged</th><th>pipeline</th><th>what</th><th>outcome</th><th>rules not held</th></tr></thead>
<tbody>
{rows or '<tr><td colspan="5">no suite has judged anything yet</td></tr>'}
</tbody></table>
<h2>Suites</h2><ul>
{names}
</ul></body></html>
"""
