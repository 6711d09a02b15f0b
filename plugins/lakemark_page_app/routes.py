"""The page's app: its routes, and who may use them.

Users who may read a pipeline's DAG see the pipeline. Users who may read its task logs also see quarantined records.
Nothing here writes: actions start DAGs through Airflow's own API and its permissions (the page's script calls that API
as the user who is logged in).
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import lakemark_connections  # noqa: F401, makes them known
from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import AccessView, DagAccessEntity, DagDetails
from airflow.api_fastapi.common.db.common import SessionDep
from airflow.api_fastapi.core_api.security import GetUserDep
from airflow.models.dag import DagModel
from fastapi import Depends, FastAPI, HTTPException, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse
from lakemark_names import DAG_PREFIX
from lakemark_page_app import airflow_state  # plugins/ is on Airflow's path
from lakemark_page_app.facts import partition_facts, summary
from lakemark_page_app.forms import Form, SavepointForm
from starlette.middleware.base import RequestResponseEndpoint

from include.control.backfill_form import request_of
from include.control.backfill_preview import preview_lines
from include.control.backfills import Backfills
from include.control.coordinator import Coordinator
from include.monitoring import data_look
from include.monitoring.health import STATES
from include.monitoring.kept_states import kept_states
from include.monitoring.overview import Overview, Seen
from include.monitoring.sinks import facts_of
from include.monitoring.tables import (
    discards,
    newest_versions,
    proofs_and_repairs,
    quality_over_time,
    quarantine_by_reason,
)
from include.monitoring.timeline import timeline
from include.participants.catalog import Catalog
from include.protocol.errors import LakemarkError, TerminalError
from include.protocol.json_data import JsonObject
from include.savepoints.form import Asked
from include.settings import Settings

FILES = Path(__file__).parent / "files"
BATCHES_MAX = 200  # in one answer
JUDGEMENTS_MAX, ROWS_MAX, EXAMPLES_MAX, LINES_MAX, CHECKPOINTS_MAX = 60, 20, 20, 50, 20
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


def reads(name: str, user: GetUserDep) -> bool:
    """Whether the user may read the pipeline's DAG."""
    return get_auth_manager().is_authorized_dag(method="GET", details=_dag(name), user=user)


def may_read(authorized: Annotated[bool, Depends(reads)]) -> None:
    _require(authorized)


def reads_records(name: str, user: GetUserDep) -> bool:
    """Whether the user may see values of records. They are as private as task logs, which may quote them."""
    logs = DagAccessEntity.TASK_LOGS
    return get_auth_manager().is_authorized_dag(method="GET", access_entity=logs, details=_dag(name), user=user)


ReadsRecords = Annotated[bool, Depends(reads_records)]


def may_read_records(authorized: ReadsRecords) -> None:
    _require(authorized)


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
    return JSONResponse({"detail": str(error)}, 400 if isinstance(error, TerminalError) else 503)


@app.exception_handler(RequestValidationError)
async def not_understood(request: Request, error: RequestValidationError) -> Response:
    """Answers for a request that makes no sense, without what it held: that may not even be text."""
    problems = (f"{'.'.join(map(str, one['loc'][1:]))}: {one['msg']}" for one in error.errors())
    return JSONResponse({"detail": "; ".join(problems)}, 422)


@app.get("/")
def page() -> FileResponse:
    return FileResponse(FILES / "page.html")


@app.get("/files/{file}")
def file(file: str) -> FileResponse:
    if file not in {path.name for path in FILES.iterdir()}:
        raise HTTPException(404, "there is no such file")
    return FileResponse(FILES / file)


@app.get("/api/pipelines")
def pipelines(user: GetUserDep, session: SessionDep) -> JsonObject:
    """All pipelines that the user may see, worst first."""
    readable = get_auth_manager().get_authorized_dag_ids(user=user, method="GET", session=session)
    found = [s for s in _OVERVIEW.pipelines() if DAG_PREFIX + s.pipeline.name in readable]
    schedulers = airflow_state.schedulers(session, [s.pipeline for s in found])
    told = [summary(s, schedulers[s.pipeline.name], _SETTINGS.maintenance_overdue_hours) for s in found]
    # A broken file has no DAG. It is for those who could see its DAG, and Airflow's import errors.
    sees_errors = get_auth_manager().is_authorized_view(access_view=AccessView.IMPORT_ERRORS, user=user)
    theirs = [e for e in _OVERVIEW.broken if reads(Path(e.file).stem, user)] if sees_errors else []
    broken = [{"where": e.where, "problem": str(e)} for e in theirs]
    return {"pipelines": sorted(told, key=lambda p: STATES.index(p["state"])), "broken": broken}


@app.get("/api/pipelines/{name}", dependencies=[Depends(may_read)])
def pipeline(
    found: SeenDep,
    session: SessionDep,
    before: Annotated[int | None, Query(ge=0)] = None,
    limit: Annotated[int, Query(ge=1, le=BATCHES_MAX)] = 40,
) -> JsonObject:
    """One pipeline, from one snapshot: its summary, every partition's extent, generations, backfills, and the batches
    of the current generation below `before`, newest first."""
    pages, digest = _OVERVIEW.pages(found), found.digest
    partitions = sorted({*(found.extents or {}), *(digest.next_offsets if digest else {})})
    scheduler = airflow_state.schedulers(session, [found.pipeline])[found.pipeline.name]
    return summary(found, scheduler, _SETTINGS.maintenance_overdue_hours) | {
        "records": dict(digest.sums.records) if digest else {},
        "partitions": [partition_facts(found, tp) for tp in partitions],
        "generations": pages.generations(),
        "backfills": pages.backfills(),
        "batches": pages.batches(before, limit),
    }


@app.get("/api/pipelines/{name}/trends", dependencies=[Depends(may_read)])
def trends(found: SeenDep, hours: Annotated[int, Query(ge=1, le=24 * 30)] = 24) -> JsonObject:
    """How the pipeline did over time."""
    return _OVERVIEW.pages(found).trend(hours)


@app.get("/api/pipelines/{name}/timeline", dependencies=[Depends(may_read)])
def history(found: SeenDep) -> list[JsonObject]:
    """What people did, and what went wrong, newest first."""
    rows = _OVERVIEW.pages(found).actions_and_errors(LINES_MAX)
    return timeline(rows, discards(_SETTINGS, found.pipeline, LINES_MAX), LINES_MAX)


@app.get("/api/pipelines/{name}/columns", dependencies=[Depends(may_read)])
def columns(found: SeenDep) -> JsonObject:
    return data_look.columns_of(_SETTINGS, found.pipeline)


@app.get("/api/pipelines/{name}/rows", dependencies=[Depends(may_read_records)])
def rows(found: SeenDep) -> JsonObject:
    """The newest rows of the target."""
    return data_look.newest(_SETTINGS, found.pipeline, ROWS_MAX)


@app.get("/api/pipelines/{name}/compare", dependencies=[Depends(may_read_records)])
def compare(found: SeenDep, before: Annotated[int, Query(ge=0)], after: Annotated[int, Query(ge=0)]) -> JsonObject:
    """What differs between two versions of the target."""
    versions = data_look.Versions(before, after)
    return data_look.compare(_SETTINGS, found.pipeline, versions, EXAMPLES_MAX)


@app.get("/api/pipelines/{name}/lineage", dependencies=[Depends(may_read)])
def lineage(found: SeenDep, session: SessionDep, user: GetUserDep) -> JsonObject:
    """Where the pipeline's data comes from, which tables it writes, and which DAGs wait for them, of those that the
    user may see."""
    readable = get_auth_manager().get_authorized_dag_ids(user=user, method="GET", session=session)
    of, written = found.pipeline, Catalog.of(found.pipeline).participants
    tables = [{"name": p.name, "table": f"lake://{p.path}", "in_words": p.in_words} for p in written]
    return {
        "topics": sorted({tp.topic for tp in found.extents or {}}) or list(of.source.topics),
        "references": dict(of.transform.references) if of.transform else {},
        "transform": of.transform.file if of.transform else None,
        "tables": tables,
        "consumers": airflow_state.consumers(session, [table["table"] for table in tables], readable),
    }


@app.post("/api/pipelines/{name}/preview", dependencies=[Depends(may_read)])
def preview(found: SeenDep, form: Form) -> JsonObject:
    """What a backfill with this form would read. It writes nothing."""
    facts = Backfills(Coordinator(_SETTINGS, found.pipeline)).preview(request_of(form.model_dump()))
    return {"lines": list(preview_lines(facts))}


@app.get("/api/pipelines/{name}/savepoints", dependencies=[Depends(may_read)])
def savepoints(found: SeenDep) -> JsonObject:
    """What the tables can go back to."""
    return kept_states(_SETTINGS, found.pipeline, CHECKPOINTS_MAX)


@app.post("/api/pipelines/{name}/savepoint-preview", dependencies=[Depends(may_read)])
def savepoint_preview(found: SeenDep, form: SavepointForm) -> JsonObject:
    """What the savepoint DAG would do with this form. It writes nothing."""
    asked = {**form.model_dump(by_alias=True), "reason": form.reason or "a preview"}
    return {"lines": Asked.of(_SETTINGS, found.pipeline, asked, by="a preview").preview()}


@app.get("/api/pipelines/{name}/sinks", dependencies=[Depends(may_read)])
def sinks(found: SeenDep) -> list[JsonObject]:
    """What each sink has got and lacks, by the ledger and the target's log. No sink is asked."""
    return [facts_of(_SETTINGS, found.pipeline, name).to_json() for name in found.pipeline.sinks]


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
def quality(found: SeenDep, with_values: ReadsRecords) -> JsonObject:
    """The suite's verdicts on the newest batches. A figure that was observed, a largest value for instance, may be the
    value of a record."""
    return quality_over_time(_SETTINGS, found.pipeline, JUDGEMENTS_MAX, with_values=with_values)
