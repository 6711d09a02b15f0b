"""Says in words what a pipeline does and what it guarantees; the DAG's page shows the same text."""

from __future__ import annotations

from include.participants.catalog import Catalog
from include.pipeline_file import LINEAGE, Pipeline
from include.pipeline_file.schema_ddl import Column
from include.protocol.guarantees import Part, end_to_end
from include.protocol.json_data import JsonObject

_DELETES = (
    "{condition} deletes: the row stays as a tombstone (`{lineage}.deleted`), so that an older change cannot bring "
    "it back"
)


def explanation(pipeline: Pipeline) -> JsonObject:
    """The pipeline as data: what each step does, the guarantee of every part, and the weakest part. Texts are as in the
    file."""
    rows = [f"{column.name} {column.type}" for column in _columns(pipeline)] + [LINEAGE]
    pipeline = pipeline.for_people
    source, change = pipeline.source, pipeline.change
    order = [*change.order_by, "topic, partition and offset"]
    steps = {
        "plan": f"takes {source.limits.in_words} from {source.topics_in_words}, "
        f"shared over partitions by lag, from where the last batch ended (the first one: {source.start})",
        "merge": f"reads exactly those, decodes {source.format}, {_what_lands(pipeline, order)}; rows, marker and "
        "offset ranges land in one Delta commit",
        "settle": "reads the table's log and records in the ledger what really landed",
    }
    if pipeline.merge_every is not None:
        land = (
            f"{steps['plan']}; appends them to the archive {pipeline.archive} as they are, marker and offsets in the "
        )
        steps = {"land": f"{land}same commit", **steps}
        steps["plan"] = (
            "takes what has landed in the archive and is not merged yet, once that is "
            f"{pipeline.merge_every} batches or Kafka has nothing new"
        )
    if source.filter:
        steps["merge"] += f"; leaves out records unless `{source.filter}`"
    if deletes := _deletes(pipeline):
        steps["merge"] += "; " + _DELETES.format(condition=" or ".join(deletes), lineage=LINEAGE)
    if beside := [p.in_words for p in Catalog.of(pipeline).before if p.takes != "set aside"]:
        steps["merge"] += f"; before that it writes, with the same marker, {', '.join(beside)}"
    if suite := pipeline.quality.suite:
        default = pipeline.quality.on_fail
        steps["merge"] += f"; the suite {suite} judges rows and batch first ({default}, unless a rule says otherwise)"
    guarantee = end_to_end(parts(pipeline))
    return {
        "pipeline": pipeline.name,
        "description": pipeline.description,
        "schedule": pipeline.starts_in_words,
        "steps": steps,
        "parts": [part.to_json() for part in parts(pipeline)],
        "cut": _cut(pipeline),
        "guarantee": guarantee.level,
        "weakest": guarantee.to_json(),
        "rows": rows,
    }


def _columns(pipeline: Pipeline) -> tuple[Column, ...]:
    """The target's columns; as the file has them, if a variable brought some."""
    decoded, shown = (p.transform or p.source for p in (pipeline, pipeline.for_people))
    if decoded.schema_ == shown.schema_:
        return pipeline.columns
    return (Column("columns of", shown.schema_),)


def _what_lands(pipeline: Pipeline, order: list[str]) -> str:
    keys, table = ", ".join(pipeline.change.keys), pipeline.target.table
    made = f"makes rows of it with {pipeline.transform.file}, " if pipeline.transform else ""
    by = ", then ".join(order)
    if pipeline.change.history == "scd2":
        return f"{made}and MERGEs every change into the history of its ({keys}) in {table}, where it belongs by {by}"
    return f"{made}keeps the newest change per ({keys}) by {by}, and MERGEs it into {table} where it is newer"


def _deletes(pipeline: Pipeline) -> list[str]:
    """What deletes a row."""
    condition = pipeline.change.delete_when
    found = [f"`{condition}`"] if condition else []
    found += ["Debezium's `d`"] if pipeline.source.is_debezium else []
    return found + (["a tombstone"] if pipeline.tombstones == "delete" else [])


def _cut(pipeline: Pipeline) -> str:
    """How a batch's cut relates to Flink's kinds of checkpoints."""
    if pipeline.merge_every is None:
        return (
            "aligned: at the end of a batch every table holds exactly the records before the batch's end offsets, and "
            "nothing is in flight"
        )
    return (
        "pipelined: landing and target each have an aligned cut of their own, and the landing's is ahead; what lies "
        "between them is in the archive, as an unaligned checkpoint keeps what is in flight"
    )


def parts(pipeline: Pipeline) -> list[Part]:
    """The source, and all that a batch writes, each with its guarantee."""
    source = Part(
        f"source {pipeline.source.topics_in_words}",
        "exactly_once",
        "replayable: every attempt reads the same frozen offset ranges, while Kafka retains them; a range that "
        "Kafka has lost stops the pipeline",
    )
    waits_in = [Catalog.of(pipeline.landing).point] if pipeline.landing else []
    catalog = Catalog.of(pipeline)
    written = (*waits_in, *catalog.participants)
    parts = [Part(p.in_words, "exactly_once", p.because) for p in written]
    return [source, *parts, *(Part(f.in_words, f.level, f.because) for f in catalog.after)]


def markdown(pipeline: Pipeline) -> str:
    """The explanation as Markdown, for Airflow's `doc_md`."""
    facts = explanation(pipeline)
    pipeline = pipeline.for_people
    steps = "\n".join(f"- **{name}** {text}." for name, text in facts["steps"].items())
    rows = "\n".join(f"| {p['name']} | {p['level'].replace('_', ' ')} | {p['because']} |" for p in facts["parts"])
    return (
        f"### {pipeline.name}\n\n{pipeline.description}\n\nRuns {facts['schedule']}.\n\n{steps}\n\n"
        f"**Guarantee, end to end: {facts['guarantee'].replace('_', ' ')}.** Any task may be cleared, retried or run "
        "twice at any time: a batch that has landed is recognized and changes nothing.\n\n"
        f"Its cuts are {facts['cut']}.\n\n"
        f"| part | guarantee | because |\n| --- | --- | --- |\n{rows}\n"
    )
