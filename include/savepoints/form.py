"""The form of the savepoint DAG: its choices, what each would do, and how it is done once, however often tried."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from include.checkpoints.listing import checkpoints_in
from include.checkpoints.reading import Cut
from include.checkpoints.restoring import Restoring
from include.checkpoints.shelf import drop, looked_at
from include.control.coordinator import Coordinator
from include.control.sink_form import deliver_of
from include.pipeline_file import Pipeline
from include.pipeline_file.tables import Tables
from include.protocol.checkpoints import Checkpoint, named
from include.protocol.errors import TerminalError
from include.protocol.json_data import JsonMapping, JsonObject
from include.protocol.ledger_rows import generation_to_json
from include.protocol.savepoints import verify_name
from include.savepoints.making import Making
from include.savepoints.program import verify_program
from include.savepoints.restoring import restoring
from include.settings import Settings

CREATE, TO_SAVEPOINT, TO_CHECKPOINT, REHEARSE, DROP = (
    "create a savepoint",
    "go back to a savepoint",
    "go back to a checkpoint",
    "rehearse a restore",
    "drop a savepoint",
)
HELP = {
    CREATE: "give a checkpoint a name, and keep it; without a checkpoint the newest",
    TO_SAVEPOINT: "all tables and the offsets, together",
    TO_CHECKPOINT: "the same, to the end of a batch",
    REHEARSE: "a savepoint is restored into a pipeline that lives for a while, which is audited and dropped",
    DROP: "its files go, or are no longer held",
}


@dataclass(frozen=True)
class Asked:
    """What a person has filled in."""

    settings: Settings
    pipeline: Pipeline
    what: str
    savepoint: str
    checkpoint: str
    is_copy: bool
    keeps_file: bool
    deliver: str | None  # see `GenerationStarted`
    reason: str
    by: str  # the run that asks: the same whenever it is tried again

    @classmethod
    def of(cls, settings: Settings, pipeline: Pipeline, form: JsonMapping, by: str) -> Self:
        """Raises TerminalError: a field that the choice uses is empty or not valid."""
        what, savepoint = form["what"], (form["savepoint"] or "").strip()
        checkpoint, reason = (form["checkpoint"] or "").strip(), (form["reason"] or "").strip()
        if what == TO_CHECKPOINT and not checkpoint:
            raise _empty("Checkpoint", "BATCH, or GENERATION/BATCH")
        if what != TO_CHECKPOINT and not savepoint:
            raise _empty("Savepoint", "its name")
        if what != TO_CHECKPOINT:
            verify_name(pipeline.name, savepoint)
        if what in (TO_SAVEPOINT, TO_CHECKPOINT) and not reason:
            raise _empty("Reason", "why the tables go back")
        return cls(
            settings,
            pipeline,
            what=what,
            savepoint=savepoint,
            checkpoint=checkpoint,
            is_copy=bool(form["copy"]),
            keeps_file=bool(form.get("keep_file")),
            deliver=deliver_of(form),
            reason=reason,
            by=by,
        )

    def preview(self) -> list[str]:
        """What it would do, as lines for people. Writes nothing. Raises as `act` does."""
        if self._is_done:
            return ["An earlier try has done it."]
        if self.what == CREATE:
            return [f"{self.savepoint}: {'a copy' if self.is_copy else 'a pin'} of {self._cut.in_words}"]
        if self.what == REHEARSE:
            return [f"{self.savepoint} is restored into a pipeline that lives for a while"]
        if self.what == DROP:
            found = looked_at(Tables.of(self.settings, self.pipeline).savepoints, self.savepoint).savepoint
            return [f"{self.savepoint} is dropped" + ("" if found is None else f": {found.bytes / 1e6:,.1f} MB")]
        return [*self._restoring.preview().lines]

    def act(self, say: Callable[[str], None]) -> JsonObject:
        """Does it, once; but for a rehearsal, which audits. Returns what was done.

        Raises:
            Whatever the command of the same name raises.
        """
        if self._is_done:
            say("an earlier try has done it")
            return {"done": self.what, "again": True}
        if self.what == CREATE:
            return self._making(say).make().to_json()
        if self.what == DROP:
            return {"dropped": drop(self.settings, self.pipeline, self.savepoint).name}
        started = self._restoring.restore()
        return {"generation": started.generation, **generation_to_json(started)}

    @property
    def _is_done(self) -> bool:
        """Whether an earlier try of the same run has done it."""
        if self.what == CREATE:
            found = looked_at(Tables.of(self.settings, self.pipeline).savepoints, self.savepoint).savepoint
            return found is not None and found.begun.created_by == self.by
        if self.what in (DROP, REHEARSE):
            return False
        state = Coordinator(self.settings, self.pipeline).ledger.state()
        return any(generation.started_by == self.by for generation in state.generations)

    @property
    def _cut(self) -> Checkpoint:
        if self.checkpoint:
            return named(self.pipeline.name, checkpoints_in(self.settings, self.pipeline), self.checkpoint)
        return Cut.at(self.settings, self.pipeline, None).checkpoint

    def _making(self, say: Callable[[str], None]) -> Making:
        return Making(
            self.settings,
            self.pipeline,
            self.savepoint,
            at=self.checkpoint or None,
            is_copy=self.is_copy,
            reason=self.reason,
            created_by=self.by,
            say=say,
        )

    @property
    def _restoring(self) -> Restoring:
        if self.what == TO_SAVEPOINT:
            if not self.keeps_file:
                verify_program(self.settings, self.pipeline, self.savepoint)
            return restoring(
                self.settings,
                self.pipeline,
                self.savepoint,
                reason=self.reason,
                started_by=self.by,
                deliver=self.deliver,
            )
        coordinator = Coordinator(self.settings, self.pipeline)
        return Restoring(coordinator, self._cut, self.reason, self.by, deliver=self.deliver)


def _empty(field: str, expected: str) -> TerminalError:
    return TerminalError(
        what="the form is not filled in correctly",
        where=f"field {field}",
        expected=expected,
        found="nothing",
        action="fill in that field and try again; nothing was changed",
    )
