"""The Lakemark page in Airflow's UI: all pipelines, each pipeline, its problem if it has one, and what can be done.

Airflow imports its plugins in every process, also in each task's. So the app itself (`lakemark_page_app`, which
`.airflowignore` hides from the search for plugins) is imported at the API server's first request for it.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from airflow.configuration import conf
from airflow.plugins_manager import AirflowPlugin

PREFIX = "/lakemark"
_BASE = urlsplit(conf.get("api", "base_url", fallback="")).path.rstrip("/")


class LazyApp:
    """An ASGI app that is imported when it is first called."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await _app()(scope, receive, send)


@cache
def _app() -> Any:
    return import_module("lakemark_page_app.routes").app


class LakemarkPage(AirflowPlugin):
    name = "lakemark_page"
    fastapi_apps = [{"app": LazyApp(), "url_prefix": PREFIX, "name": "Lakemark"}]  # noqa: RUF012, Airflow's own form
    external_views = [  # noqa: RUF012
        {
            "name": "Lakemark",
            "href": f"{_BASE}{PREFIX}/",
            "url_route": "lakemark",
            "destination": "nav",
            "nav_top_level": True,
            "icon": f"{_BASE}{PREFIX}/files/icon.svg",
        }
    ]
