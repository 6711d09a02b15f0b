"""`make pictures`: takes the screenshots of the docs, in a real Airflow with pipelines that a reader could have.

It starts an installation of its own and takes it down again. `airflow.png` is not among them: it shows what `make demo`
leaves behind.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

from include.protocol.errors import RetryableError
from include.settings import PROJECT_ROOT
from tests.support.browser import find_browser
from tests.support.installed import Installed
from tests.support.page_browser import logged_in
from tests.support.waiting import wait_until

IMAGES = PROJECT_ROOT / "docs" / "images"
WIDE, SMALL = {"width": 1400, "height": 1000}, {"width": 1200, "height": 760}

ORDERS = """\
name: orders
schedule: {on_data: {records: 200, seconds: 5}}
stale_after_minutes: 10
source:
  bootstrap_servers: ${KAFKA_BOOTSTRAP_SERVERS}
  topics: [orders]
  schema: id BIGINT, seq BIGINT, customer STRING, amount DOUBLE, op STRING
  limits: {records_per_batch_max: 400}
change:
  keys: [id]
  order_by: [seq]
  delete_when: op = 'd'
target:
  table: lake://silver/orders
"""
OTHER = """\
name: {name}
schedule: {schedule}
source:
  bootstrap_servers: ${{KAFKA_BOOTSTRAP_SERVERS}}
  topics: [{name}]
  schema: id BIGINT, customer STRING, amount DOUBLE, currency STRING, seq BIGINT
  limits: {{records_per_batch_max: 40}}
change: {{keys: [id], order_by: [seq]}}
target: {{table: lake://silver/{name}}}
"""
RULES = (
    ("a payment has a customer", "quarantine", "expect_column_values_to_not_be_null", {"column": "customer"}),
    (
        "an amount up to 1,000",
        "quarantine",
        "expect_column_values_to_be_between",
        {"column": "amount", "max_value": 1000},
    ),
    (
        "a known currency",
        "warn",
        "expect_column_values_to_be_in_set",
        {"column": "currency", "value_set": ["EUR", "USD"]},
    ),
    ("not nearly empty", "warn", "expect_table_row_count_to_be_between", {"min_value": 10}),
)


def main() -> int:
    if find_browser() is None:
        print("make pictures needs a Chromium: none is pinned for this platform, and it has none", file=sys.stderr)
        return 1
    home = Path(tempfile.mkdtemp(prefix="lakemark-pictures-"))
    installed = Installed(home)
    try:
        with logged_in(installed, SMALL) as page:
            orders(installed, page)
            refunds(installed, page)
            payments(installed, page)
            backfill(installed, page)
            overview(installed, page)
    finally:
        installed.stack.down()
        shutil.rmtree(home, ignore_errors=True)
    return 0


# ---------------------------------------------------------------- scenes


def orders(installed: Installed, page: Page) -> None:
    """A new pipeline: its DAGs, then its page after eight batches."""
    write(installed, "orders", ORDERS)
    installed.world.create_topic("orders", 2)
    wait_until(lambda: installed.api.dag_exists("lakemark__orders__reset"), 90)
    visit(page, installed, "/dags?tags=lakemark", "lakemark__orders", SMALL)
    take(page, "walk_add_dags")
    dice = random.Random(7)
    changes: list[Any] = [
        {"id": dice.randrange(2100), "seq": n, "customer": f"c{dice.randrange(90)}", "amount": n / 4, "op": "u"}
        for n in range(2943)
    ]
    for n in range(57):
        changes.insert(dice.randrange(len(changes)), b"{" if n % 3 else {"seq": n, "amount": 1.5})
    installed.world.produce("orders", changes)
    unpause(installed, "lakemark__orders")
    run(installed, "lakemark__orders", records=3000)
    pipeline_page(page, installed, "orders", SMALL)
    take(page, "walk_add_page")
    pipeline_page(page, installed, "orders", WIDE)
    frame(page).get_by_role("button", name="batch 3", exact=True).click()
    frame(page).locator("tr.details").wait_for()
    frame(page).locator("body").evaluate("body => body.ownerDocument.scrollingElement.scrollTo(0, 0)")
    take(page, "page_pipeline")
    frame(page).get_by_role("button", name="What it changed").click()
    frame(page).locator("#compared table").wait_for(timeout=60_000)
    frame(page).get_by_text("20 rows, version").click()
    frame(page).locator("svg.lineage").evaluate("drawing => drawing.scrollIntoView({block: 'end'})")
    frame(page).get_by_role("heading", name="Data", exact=True).evaluate("heading => heading.scrollIntoView()")
    take(page, "page_data")


def refunds(installed: Installed, page: Page) -> None:
    """A pipeline that is red: its topic does not exist."""
    write(installed, "refunds", OTHER.format(name="refunds", schedule="null"))
    wait_until(lambda: installed.api.dag_exists("lakemark__refunds"), 90)
    unpause(installed, "lakemark__refunds")
    run_id, state = installed.run("lakemark__refunds")
    assert state == "failed", state
    pipeline_page(page, installed, "refunds", SMALL, state="failed")
    take(page, "walk_red")
    visit(page, installed, f"/dags/lakemark__refunds/runs/{run_id}", "a topic does not exist", SMALL)
    take(page, "walk_red_run")


def payments(installed: Installed, page: Page) -> None:
    """A pipeline with a quality suite and a quarantine."""
    installed.world.write_suite(
        "payments",
        [
            {"type": kind, "kwargs": kwargs, "meta": {"lakemark": {"name": name, "on_fail": policy}}}
            for name, policy, kind, kwargs in RULES
        ],
    )
    suite = "quality: {suite: payments}\n"
    write(installed, "payments", OTHER.format(name="payments", schedule='"@daily"') + suite)
    installed.world.create_topic("payments", 2)
    dice = random.Random(11)
    installed.world.produce(
        "payments",
        [
            {
                "id": n,
                "customer": None if n % 41 == 3 else f"c{n % 70}",
                "amount": 1250.0 if n % 47 == 5 else round(dice.uniform(1, 900), 2),
                "currency": dice.choice(("EUR", "EUR", "USD", "CHF")),
                "seq": 1,
            }
            for n in range(240)
        ],
    )
    wait_until(lambda: installed.api.dag_exists("lakemark__payments"), 90)
    unpause(installed, "lakemark__payments")
    run(installed, "lakemark__payments", records=240)
    pipeline_page(page, installed, "payments", WIDE)
    reason = frame(page).get_by_text("breaks a payment has a customer")
    reason.click(timeout=60_000)
    frame(page).locator("section[aria-label=Quality] td").first.wait_for(timeout=60_000)
    frame(page).get_by_role("heading", name="Batches").scroll_into_view_if_needed()
    frame(page).get_by_role("heading", name="Batches").evaluate("heading => heading.scrollIntoView()")
    take(page, "walk_quarantine")
    frame(page).get_by_role("button", name="Replay quarantine …").click()
    frame(page).get_by_role("dialog").locator("input[name=reason]").fill("the suite is corrected")
    take(page, "walk_replay")
    frame(page).get_by_role("button", name="Cancel").click()


def backfill(installed: Installed, page: Page) -> None:
    """The two forms of a backfill, and one that runs."""
    dag_id, midnight = "lakemark__orders__backfill", datetime.now(UTC).replace(hour=0, minute=0)
    pipeline_page(page, installed, "orders", SMALL)
    frame(page).get_by_role("button", name="Backfill …").click()
    dialog = frame(page).get_by_role("dialog", name="Backfill")
    dialog.locator("select[name=kind]").select_option("span")
    for name, day in (("since", midnight - timedelta(days=1)), ("until", midnight)):
        dialog.locator(f"input[name={name}]").fill(f"{day:%Y-%m-%d %H:%M}")
    dialog.locator("input[name=reason]").fill("yesterday, with the corrected file")
    take(page, "walk_backfill")

    form = {"what": "batches", "batches": "0-7", "records_per_chunk": 300, "reason": "a fix of yesterday"}
    run_id = installed.api.trigger(dag_id, **form)
    wait_until(lambda: "success" in chunk_states(installed, dag_id, run_id), 240)
    visit(page, installed, f"/dags/{dag_id}/runs/{run_id}", "chunk", SMALL)
    take(page, "walk_backfill_run")
    assert installed.ended(dag_id, run_id, 600) == "success"

    visit(page, installed, f"/dags/{dag_id}", "Trigger", {"width": 1400, "height": 2000})
    page.get_by_role("button", name="Trigger").first.click()
    form_dialog = page.get_by_role("dialog")
    form_dialog.get_by_text("What to do").wait_for(timeout=60_000)
    form_dialog.screenshot(path=IMAGES / "backfill_form.png")


def overview(installed: Installed, page: Page) -> None:
    """All pipelines, in several states."""
    for name in ("customers", "invoices", "returns", "shipments", "visits"):
        # Without a schedule, the run that is triggered is the only one, and it is seen while it runs.
        write(installed, name, OTHER.format(name=name, schedule="null" if name == "invoices" else '"@hourly"'))
        installed.world.create_topic(name, 2)
        installed.world.produce(name, [{"id": n, "seq": 1, "customer": "c1", "amount": 1.0} for n in range(90)])
        wait_until(lambda name=name: installed.api.dag_exists(f"lakemark__{name}"), 90)
    unpause(installed, "lakemark__customers")
    run(installed, "lakemark__customers", records=90)
    installed.world.produce("invoices", [{"id": n, "seq": 2} for n in range(900)])
    unpause(installed, "lakemark__invoices")
    run_id = installed.api.trigger("lakemark__invoices")
    wait_until(lambda: installed.api.run_state("lakemark__invoices", run_id) == "running", 120)
    visit(page, installed, "/plugin/lakemark", None, WIDE)
    frame(page).get_by_role("link", name="visits", exact=True).wait_for(timeout=60_000)
    frame(page).locator("tr .state.running").first.wait_for(timeout=60_000)
    take(page, "page_list")


# ---------------------------------------------------------------- steps


def write(installed: Installed, name: str, text: str) -> None:
    (installed.world.settings.pipelines / f"{name}.yaml").write_text(text)


def unpause(installed: Installed, dag_id: str) -> None:
    def is_unpaused() -> bool:
        with suppress(RetryableError):  # Airflow's SQLite is locked: a page is open that asks for much
            installed.api.unpause(dag_id)
            return True
        return False

    wait_until(is_unpaused, 60)


def run(installed: Installed, dag_id: str, records: int) -> None:
    """Runs a DAG until its pipeline has read so many records (a schedule may have started a run before); proves it."""
    name = dag_id.removeprefix("lakemark__")

    def is_done() -> bool:
        state = installed.world.coordinator(installed.world.load(name)).ledger.state()
        return (
            sum(batch.commit.counts.read for batch in state.batches if batch.commit and batch.commit.counts) >= records
        )

    _, state = installed.run(dag_id)
    assert state == "success", state
    wait_until(is_done, 300)
    installed.lakemark("audit", name, "--deep")


def chunk_states(installed: Installed, dag_id: str, run_id: str) -> set[str]:
    found = installed.api._get(f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances?limit=100")["task_instances"]
    return {task["state"] for task in found if task["task_id"] == "chunk"}


def visit(page: Page, installed: Installed, path: str, text: str | None, size: dict[str, int]) -> None:
    page.set_viewport_size(size)
    page.goto(f"{installed.stack.airflow.url}{path}")
    if text is not None:
        page.get_by_text(text).first.wait_for(timeout=60_000)


def pipeline_page(page: Page, installed: Installed, name: str, size: dict[str, int], state: str = "ok") -> None:
    page.goto("about:blank")  # another address of the same page would not load it again
    visit(page, installed, f"/plugin/lakemark#/{name}", None, size)
    frame(page).get_by_role("heading", name=name).wait_for(timeout=60_000)
    frame(page).locator(f"h1 .state.{state}").wait_for(timeout=60_000)


def frame(page: Page) -> Any:
    return page.frame_locator("iframe")


def take(page: Page, name: str) -> None:
    page.wait_for_load_state("networkidle")
    page.screenshot(path=IMAGES / f"{name}.png")
    print(f"docs/images/{name}.png", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
