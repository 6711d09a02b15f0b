"""The page's app: its routes, and who may use them.

Users who may read a pipeline's DAG see the pipeline. Users who may read its task logs also see quarantined records.
Nothing here writes: actions start DAGs through Airflow's own API and its permissions (the page's script calls that API
as the user who is logged in).
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import lakemark_connections  # noqa: F401, makes them known
from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import AccessView, DagAccessEntity, DagDetails
from airflow.api_fastapi.common.db.common import SessionDep
from airflow.api_fastapi.core_api.security import GetUserDep
from airflow.models.dag import DagModel
from fastapi import Depends, FastAPI, HTTPException, Query, Request, Response
from fastapi.responses import FileResponse, JSONResponse
from lakemark_names import DAG_PREFIX
from lakemark_page_app import airflow_state  # plugins/ is on Airflow's path
from lakemark_page_app.facts import partition_facts, summary
from starlette.middleware.base import RequestResponseEndpoint

from include.monitoring.health import STATES, Scheduler
from include.monitoring.overview import Overview, Seen
from include.monitoring.tables import newest_versions, proofs_and_repairs, quality_over_time, quarantine_by_reason
from include.protocol.errors import LakemarkError
from include.protocol.json_data import JsonObject
from include.settings import Settings

FILES = Path(__file__).parent / "files"
BATCHES_MAX = 200  # in one answer
JUDGEMENTS_MAX = 60
_SETTINGS = Settings.from_environment()
_OVERVIEW = Overview(_SETTINGS)
_SAFE = {
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'self'",  # nothing from a foreign host, ever
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


def may_read_dags(user: GetUserDep) -> None:
    """401 without a login (from GetUserDep), 403 for users who may read no DAG at all."""
    _require(get_auth_manager().is_authorized_dag(method="GET", user=user))


def may_read(name: str, user: GetUserDep) -> None:
    _require(get_auth_manager().is_authorized_dag(method="GET", details=_dag(name), user=user))


def may_read_records(name: str, user: GetUserDep) -> None:
    """Quarantined records are as private as task logs, which may quote them."""
    logs = DagAccessEntity.TASK_LOGS
    _require(get_auth_manager().is_authorized_dag(method="GET", access_entity=logs, details=_dag(name), user=user))


def _dag(name: str) -> DagDetails:
    return DagDetails(id=DAG_PREFIX + name, team_name=DagModel.get_team_name(DAG_PREFIX + name))


def _require(authorized: bool) -> None:
    if not authorized:
        raise HTTPException(403, "Forbidden")


def seen(name: str) -> Seen:
    found = _OVERVIEW.pipeline(name)
    if found is None:
        raise HTTPException(404, f"there is no valid pipeline file {name}.yaml")
    return found


SeenDep = Annotated[Seen, Depends(seen)]
app = FastAPI(title="Lakemark", docs_url=None, redoc_url=None, openapi_url=None, dependencies=[Depends(may_read_dags)])


@app.middleware("http")
async def safe(request: Request, call_next: RequestResponseEndpoint) -> Response:
    response = await call_next(request)
    response.headers.update(_SAFE)
    return response


@app.exception_handler(LakemarkError)
async def told(request: Request, error: LakemarkError) -> Response:
    """Answers for a table or a ledger that cannot be read: the page shows the problem in its place."""
    return JSONResponse({"detail": str(error)}, 503)


@app.get("/")
def page() -> FileResponse:
    return FileResponse(FILES / "page.html")


@app.get("/files/{file}")
def file(
    file: Literal["page.js", "page.css", "dom.js", "list.js", "pipeline.js", "drawing.js", "actions.js", "icon.svg"],
) -> FileResponse:
    return FileResponse(FILES / file)


@app.get("/api/pipelines")
def pipelines(user: GetUserDep, session: SessionDep) -> JsonObject:
    """All pipelines that the user may see, worst first."""
    readable = get_auth_manager().get_authorized_dag_ids(user=user, method="GET", session=session)
    found = [s for s in _OVERVIEW.pipelines() if DAG_PREFIX + s.pipeline.name in readable]
    schedulers = airflow_state.schedulers(session, [DAG_PREFIX + s.pipeline.name for s in found])
    told = [summary(s, schedulers.get(DAG_PREFIX + s.pipeline.name, Scheduler())) for s in found]
    may_see_errors = get_auth_manager().is_authorized_view(access_view=AccessView.IMPORT_ERRORS, user=user)
    broken = [{"where": e.where, "problem": str(e)} for e in _OVERVIEW.broken] if may_see_errors else []
    return {"pipelines": sorted(told, key=lambda p: STATES.index(p["state"])), "broken": broken}


@app.get("/api/pipelines/{name}", dependencies=[Depends(may_read)])
def pipeline(found: SeenDep, session: SessionDep) -> JsonObject:
    """One pipeline: its summary, every partition's extent, generations and backfills."""
    dag_id = DAG_PREFIX + found.pipeline.name
    reader, digest = _OVERVIEW.reader(found.pipeline), found.digest
    partitions = sorted({*(found.extents or {}), *(digest.next_offsets if digest else {})})
    return summary(found, airflow_state.schedulers(session, [dag_id]).get(dag_id, Scheduler())) | {
        "records": digest.records if digest else {},
        "partitions": [partition_facts(found, tp) for tp in partitions],
        "generations": reader.generations(),
        "backfills": reader.backfills(),
    }


@app.get("/api/pipelines/{name}/batches", dependencies=[Depends(may_read)])
def batches(
    found: SeenDep,
    before: Annotated[int | None, Query(ge=0)] = None,
    limit: Annotated[int, Query(ge=1, le=BATCHES_MAX)] = 40,
) -> list[JsonObject]:
    """Batches of the current generation below `before`, newest first."""
    generation = found.digest.generation if found.digest else 1
    return _OVERVIEW.reader(found.pipeline).batches(generation, before, limit)


@app.get("/api/pipelines/{name}/quarantine", dependencies=[Depends(may_read_records)])
def quarantine(found: SeenDep) -> list[JsonObject]:
    return quarantine_by_reason(_SETTINGS, found.pipeline, samples=3)


@app.get("/api/pipelines/{name}/versions", dependencies=[Depends(may_read)])
def versions(found: SeenDep, limit: Annotated[int, Query(ge=1, le=BATCHES_MAX)] = 30) -> list[JsonObject]:
    return newest_versions(_SETTINGS, found.pipeline, limit)


@app.get("/api/pipelines/{name}/tables", dependencies=[Depends(may_read)])
def tables(found: SeenDep) -> JsonObject:
    """What audits have proven of every table, and which of them the next batch mends."""
    return proofs_and_repairs(_SETTINGS, found.pipeline)


@app.get("/api/pipelines/{name}/quality", dependencies=[Depends(may_read)])
def quality(found: SeenDep) -> JsonObject:
    """The suite's verdicts on the newest batches, without values of records."""
    return quality_over_time(_SETTINGS, found.pipeline, JUDGEMENTS_MAX)
