"""The program of a pipeline: a digest of everything beside the records that decides what a batch writes."""

from __future__ import annotations

import hashlib
import json

from include.pipeline_file import Pipeline
from include.pipeline_file.transform_file import read_transform
from include.protocol.errors import TerminalError
from include.protocol.json_data import JsonObject
from include.protocol.ledger_events import GenerationStarted
from include.protocol.ledger_state import LedgerState
from include.settings import Settings

# Where records come from, and how fast, decides nothing about rows. Logins stay out of digests.
_OF_READING = {"bootstrap_servers", "security", "topics", "topics_pattern", "registry", "limits", "start"}


def program_of(settings: Settings, pipeline: Pipeline, suite: str | None) -> str:
    """The digest, in hex. Attempts with the same program make the same rows of the same records.

    Args:
        suite: fingerprint of the quality suite; None: there is none.
    """
    parts = {**_rules(settings, pipeline), "suite": suite, "code": settings.code_version}
    return digest_of(json.dumps(parts, sort_keys=True))


def rules_of(settings: Settings, pipeline: Pipeline) -> str:
    """The digest of what the pipeline's file and its transform say of rows."""
    return digest_of(json.dumps(_rules(settings, pipeline), sort_keys=True))


def verify_file_written(settings: Settings, pipeline: Pipeline, state: LedgerState) -> None:
    """Checks that the pipeline's file is the one that a restore or a promotion was to write after its rows.

    Raises:
        TerminalError: it is another one. The first batch would go on by other rules than those of the rows.
    """
    begun = awaits_file(settings, pipeline, state)
    if begun is None:
        return
    name, again = pipeline.name, ""
    if begun.is_cut_over:
        again = f"lakemark promote {begun.cut_over_to} --over {name} --write-file"
    elif begun.savepoint is not None:  # else the ledger was lost meanwhile, and nobody knows
        again = f"lakemark savepoint restore {name} {begun.savepoint} --write-file"
    raise TerminalError(
        what="the tables have rows of other rules than those of the pipeline file, which was to be written with them",
        where=f"{name} generation {begun.generation}, from: {begun.origin}",
        expected="the file as that was to write it; it was interrupted before, or this machine has the file of before",
        found="another one",
        action=(f"run the same again, it writes the file: `{again} --reason ...`; or " if again else "")
        + "bring the file here from where it was written (a savepoint or the clone has it); or go on by the file as it "
        f"is: `lakemark reset {name} --from committed --reason ...`",
    )


def awaits_file(settings: Settings, pipeline: Pipeline, state: LedgerState) -> GenerationStarted | None:
    """The restore or the promotion whose rows are there and whose file is not; None: there is none."""
    begun = state.generations[-1] if state.generations and state.next_batch_id == 0 else None
    if begun is None or begun.rules is None or begun.rules == rules_of(settings, pipeline):
        return None
    return begun


def _rules(settings: Settings, pipeline: Pipeline) -> JsonObject:
    return {
        "source": pipeline.source.model_dump(mode="json", exclude=_OF_READING),
        "change": pipeline.change.model_dump(mode="json"),
        "target": pipeline.target.model_dump(mode="json"),
        "quality": pipeline.quality.model_dump(mode="json", include={"on_fail"}),
        "transform": pipeline.transform and pipeline.transform.model_dump(mode="json"),
        "transform_text": None if pipeline.transform is None else read_transform(settings, pipeline),
    }


def digest_of(*parts: str | None) -> str:
    """One digest of several texts: 32 hexadecimal digits."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]
