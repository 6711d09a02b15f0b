"""Users whose rights stand in their names (see `auth_manager`). Imports no Airflow, which reads its settings then."""

from __future__ import annotations

AUTH_MANAGER = "tests.support.auth_manager.ByName"
NO_LOGS = "no_logs"  # reads all DAGs, and no task logs
ONLY = "only_"  # reads the DAGs whose ids begin with what follows, and no others
