"""The Lakemark page in a real Chromium, within a real Airflow, for tests and for the docs' pictures."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import requests

from include.pipeline_file import Pipeline
from tests.support.browser import FLAGS, find_browser
from tests.support.installed import Installed
from tests.support.waiting import wait_until


@contextmanager
def logged_in(installed: Installed, size: dict[str, int]) -> Iterator[Any]:
    """A page of Playwright, logged in at Airflow."""
    from playwright.sync_api import sync_playwright

    airflow = installed.stack.airflow
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=find_browser(), args=FLAGS)
        page = chromium.new_context(viewport=size).new_page()
        page.goto(airflow.url)
        page.fill("input[name=username]", airflow.user)
        page.fill("input[name=password]", airflow.password)
        page.click("button[type=submit]")
        page.get_by_text("Lakemark", exact=True).wait_for(timeout=30_000)
        yield page
        chromium.close()


@dataclass
class Browser:
    installed: Installed
    page: Any
    problems: list[str]

    @property
    def frame(self) -> Any:
        return self.page.frame_locator("iframe")

    def open(self, name: str = "") -> Any:
        """Opens a pipeline's view, or the list; returns the frame."""
        self.page.goto(f"{self.installed.stack.airflow.url}/plugin/lakemark#/{name}")
        self.page.reload()
        self.frame.get_by_role("heading", name=name or "Pipelines", exact=False).first.wait_for(timeout=30_000)
        return self.frame

    def do(self, button: str, verb: str, **fields: str) -> Any:
        """Fills in a dialog of an action. Returns the dialog."""
        self.frame.get_by_role("button", name=button).click()
        dialog = self.frame.get_by_role("dialog")
        for label, text in fields.items():
            dialog.get_by_label(label.replace("_", " ")).fill(text)
        if verb:
            dialog.get_by_role("button", name=verb, exact=True).click()
        return dialog

    def draw_over(self, strip: Any, part: float) -> None:
        """Draws from the left end of a strip over a part of it, as a person does who tries again if the page, which
        is drawn anew every few seconds, moved it away just before."""

        def chosen() -> bool:
            if box := strip.bounding_box():  # None: it was replaced after it was found
                self.page.mouse.move(box["x"] + 1, box["y"] + 8)
                self.page.mouse.down()
                self.page.mouse.move(box["x"] + part * box["width"], box["y"] + 8, steps=5)
                self.page.mouse.up()
            return bool(self.frame.locator("p.choice").count())

        wait_until(chosen, 30)

    def ran(self, dag_id: str) -> tuple[str, str]:
        """The id and the end of the run that the page has just gone to."""
        self.page.wait_for_url(f"**/dags/{dag_id}/runs/*", timeout=30_000)
        run_id = requests.utils.unquote(self.page.url.split("/runs/")[1].split("/")[0].split("?")[0])
        return run_id, self.installed.ended(dag_id, run_id)


def made(installed: Installed, name: str, *records: list[Any], **sections: Any) -> Pipeline:
    """A pipeline with a batch for every list of records."""
    world = installed.world
    topic = world.topic()
    limits = {"limits": {"records_per_batch_max": max(map(len, records))}}
    pipeline = world.pipeline(topic, name, source=limits, **sections)
    for values in records:
        world.produce(topic, values)
        installed.lakemark("run", name)
    return pipeline
