"""Airflow on one machine, on the loopback address: SQLite by default, the local executor, the simple auth manager."""

from __future__ import annotations

import json
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from include.settings import PROJECT_ROOT

USER = "admin"
BUNDLES = [
    {
        "name": "dags-folder",
        "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle",
        "kwargs": {"refresh_interval": 30},  # seconds until a new file of a user is found
    },
    {"name": "lakemark", "classpath": "lakemark_bundle.PipelineBundle", "kwargs": {}},  # in plugins/
]
Sections = dict[str, dict[str, object]]
TUNED: Sections = {
    # Airflow does not keep a DAG that it parses within so many seconds after it has kept another form of it. It would
    # be parsed again at once, if it were not for the section below.
    "CORE": {
        "EXECUTOR": "lakemark_warm_executor.WarmLocalExecutor",  # in plugins/
        "PARALLELISM": 4,
        "MIN_SERIALIZED_DAG_UPDATE_INTERVAL": 0,
    },
    # A DAG file is parsed when it changes, or what it stands for, which the bundle of Lakemark sees within seconds; and
    # once an hour.
    "DAG_PROCESSOR": {
        "DAG_BUNDLE_CONFIG_LIST": json.dumps(BUNDLES),
        "FILE_PARSING_SORT_MODE": "modified_time",
        "MIN_FILE_PROCESS_INTERVAL": 3600,
        "PARSING_PROCESSES": 1,
    },
    # A task tells every five seconds that it lives. If it or its worker was killed, its slot is free, and its next try
    # begins, after half a minute: by default after five. What a killed scheduler had queued waits as long. If a living
    # task is taken for dead, both tries may run, and one of them lands (I5).
    "SCHEDULER": {
        "TASK_INSTANCE_HEARTBEAT_TIMEOUT": 30,
        "TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": 5,
        "ORPHANED_TASKS_CHECK_INTERVAL": 30,
    },
}


@dataclass(frozen=True)
class AirflowHome:
    folder: Path
    port: int
    database: str | None = None  # SQLAlchemy URL; None: SQLite in the folder

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def user(self) -> str:
        return USER

    @property
    def password(self) -> str:
        return self._secrets()["password"]

    def prepare(self) -> None:
        """Makes the secrets that all components share: once, and readable by the owner only."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if not self._secrets_file.exists():
            _write_private(
                self._secrets_file,
                {
                    "password": secrets.token_urlsafe(12),
                    "jwt_secret": secrets.token_urlsafe(48),
                    "fernet_key": urlsafe_b64encode(secrets.token_bytes(32)).decode(),
                },
            )
        _write_private(self._passwords_file, {USER: self.password})

    def environment(self, given: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
        """Airflow's settings as environment variables, so that nobody has to maintain an airflow.cfg.

        Args:
            given: a user's own variables. What they say of speed counts (`AIRFLOW__CORE__PARALLELISM`), and what they
                say of places and secrets does not.
        """
        return self._places() | {name: given.get(name, value) for name, value in _variables(TUNED).items()}

    def _places(self) -> dict[str, str]:
        shared = self._secrets()
        sections: Sections = {
            "CORE": {
                "DAGS_FOLDER": PROJECT_ROOT / "dags",
                "PLUGINS_FOLDER": PROJECT_ROOT / "plugins",
                "LOAD_EXAMPLES": False,
                "SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin",
                "SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": self._passwords_file,
                "EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
                "FERNET_KEY": shared["fernet_key"],
            },
            "API": {"HOST": "127.0.0.1", "PORT": self.port, "BASE_URL": self.url, "WORKERS": 1},
            "API_AUTH": {"JWT_SECRET": shared["jwt_secret"]},
            "DATABASE": self._database(),
            "LOGGING": {
                "BASE_LOG_FOLDER": self.folder / "logs",
                "FILE_TASK_HANDLER_NEW_FOLDER_PERMISSIONS": "0o700",
                "FILE_TASK_HANDLER_NEW_FILE_PERMISSIONS": "0o600",
            },
            "DAG_PROCESSOR": {"DAG_BUNDLE_STORAGE_PATH": self.folder / "bundles"},
            "SCHEDULER": {"ENABLE_HEALTH_CHECK": False},
            "USAGE_DATA_COLLECTION": {"ENABLED": False},
        }
        return {"AIRFLOW_HOME": str(self.folder), **_variables(sections)}

    def _database(self) -> dict[str, object]:
        if self.database is None:
            return {"SQL_ALCHEMY_CONN": f"sqlite:///{self.folder / 'airflow.db'}"}
        # For PostgreSQL, Airflow would take another driver where it works asynchronously, which must be installed, too.
        is_psycopg = self.database.startswith("postgresql+psycopg:")
        return {"SQL_ALCHEMY_CONN": self.database, **({"SQL_ALCHEMY_CONN_ASYNC": self.database} if is_psycopg else {})}

    @property
    def _secrets_file(self) -> Path:
        return self.folder / "secrets.json"

    @property
    def _passwords_file(self) -> Path:
        return self.folder / "passwords.json"

    def _secrets(self) -> dict[str, str]:
        return json.loads(self._secrets_file.read_text())


def _variables(sections: Sections) -> dict[str, str]:
    return {f"AIRFLOW__{section}__{key}": str(v) for section, keys in sections.items() for key, v in keys.items()}


def _write_private(path: Path, data: dict[str, str]) -> None:
    path.touch(mode=0o600)
    path.write_text(json.dumps(data))
