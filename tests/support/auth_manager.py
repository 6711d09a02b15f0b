"""An auth manager with fewer rights than Airflow's simple one knows. A user's rights stand in the user's name."""

from __future__ import annotations

from typing import Any

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager

from tests.support.rights import NO_LOGS, ONLY


class ByName(SimpleAuthManager):
    def is_authorized_dag(self, *, user: Any, access_entity: Any = None, details: Any = None, **more: Any) -> bool:
        if user.username == NO_LOGS and access_entity is DagAccessEntity.TASK_LOGS:
            return False
        beginning = user.username.removeprefix(ONLY)
        if beginning != user.username and details is not None and not str(details.id).startswith(beginning):
            return False
        return super().is_authorized_dag(user=user, access_entity=access_entity, details=details, **more)
