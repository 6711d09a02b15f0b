"""The pipeline: what its file declares, after checks, and the halves that run."""

from __future__ import annotations

from pydantic import PrivateAttr, model_validator

from include.pipeline_file.change import KAFKA_TIMESTAMP
from include.pipeline_file.declaration import KAFKA_POSITION, Declaration
from include.pipeline_file.quality import Quality
from include.pipeline_file.schema_ddl import FLOATS
from include.pipeline_file.section import LANDING, refused_all
from include.pipeline_file.section_checks import problems_between
from include.pipeline_file.target import Checkpoints, Target
from include.pipeline_file.variables import as_shown
from include.protocol.json_data import JsonMapping

MISFITS = "misfits"  # the type of pydantic's finding that holds all that does not fit together


class Pipeline(Declaration):
    _as_shown: Pipeline | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _fits_together(self) -> Pipeline:
        if problems := problems_between(self):
            raise refused_all(MISFITS, problems)
        return self

    def shown_as(self, written: JsonMapping) -> Pipeline:
        """The same pipeline, which people see as its file is written."""
        copy = self.model_copy()
        copy._as_shown = as_shown(self, written)
        return copy

    @property
    def for_people(self) -> Pipeline:
        """The pipeline to show to people, not to run: texts that came from variables are `${NAME}`."""
        return self._as_shown or self

    @property
    def landing(self) -> Pipeline | None:
        """The half that takes batches from Kafka to the archive. The other half merges from there. The landing is a
        pipeline with its own ledger and generations, and its target is the archive. None without `merge_every`."""
        if self.merge_every is None or self.archive is None:
            return None
        own: dict[str, object] = {
            "name": self.landing_name,
            "target": Target(table=self.archive),
            "checkpoints": Checkpoints(),
            "sinks": {},
            "maintenance": self.maintenance.model_copy(update={"purge_tombstones_after_days": None}),
        }
        none = ("schedule", "group", "stale_after_minutes", "transform", "archive", "merge_every")
        landing = self.model_copy(update={**own, **dict.fromkeys(none), "quality": Quality()})
        landing._as_shown = self._as_shown and self._as_shown.landing
        return landing

    @property
    def landing_name(self) -> str | None:
        """None without `merge_every`, as for `landing`."""
        return None if self.merge_every is None or self.archive is None else f"{self.name}{LANDING}"

    @property
    def halves(self) -> tuple[Pipeline, ...]:
        """The pipelines that run, one after the other: with `merge_every` the landing, then the pipeline itself."""
        return (self,) if (landing := self.landing) is None else (landing, self)

    @property
    def brings_code(self) -> bool:
        """Whether its job runs code of the user's own."""
        return self.transform is not None or any(sink.python is not None for sink in self.sinks.values())

    @property
    def is_landing(self) -> bool:
        return self.name.endswith(LANDING)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about what is allowed, but may not be intended."""
        found = [
            f"change.keys has {column.name}, which is {column.type}: two numbers that differ beyond its digits become "
            "one key. Declare DECIMAL"
            for column in self.columns
            if column.name in self.change.keys and column.word in FLOATS
        ]
        if not self.change.order_by and self.change.keys != tuple(KAFKA_POSITION):
            found.append(
                "change.order_by is empty: offsets alone order the changes of a key. When a topic gets more "
                "partitions, keys move to other partitions, and their offsets cannot be compared: an older change may "
                f"then win. Name a column or position that orders changes (or {KAFKA_TIMESTAMP}), unless partitions "
                "are never added"
            )
        return tuple(found)
