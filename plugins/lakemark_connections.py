"""Airflow's connections as logins for Kafka and schema registries. To import this module makes them known."""

from __future__ import annotations

import json
import logging

from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowException

from include.sources.logins import look_up_with

log = logging.getLogger(__name__)


def _of_airflow(name: str) -> str | None:
    """A connection, from wherever this Airflow keeps them: its database or a secrets backend; None: there is none."""
    try:
        found = Connection.get(name)
    except AirflowException as error:
        log.info("connection %s: %s", name, error)
        return None
    return json.dumps({"login": found.login, "password": found.password, "extra": found.extra})


look_up_with(_of_airflow)
