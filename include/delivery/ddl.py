"""The statements that make what a sink needs in its database, and the least rights of who delivers. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from include.delivery.sink_table import PROGRESS, SinkTable
from include.pipeline_file.schema_ddl import word_of

_NAME_MAX = 63  # of pipelines and sinks


@dataclass(frozen=True)
class Dialect:
    """What differs between systems.

    Args:
        quote: around a name. exact_names: `id` and `ID` are two columns. of_table: after a new table's columns.
        of_text_key: after the type of a text that is part of a key: texts that differ in case, accents or spaces at
            their end are different keys.
        text, long_text, number, time: types. more_rights: what a delivery needs beside the rights on the two tables.
    """

    quote: str
    exact_names: bool
    of_table: str
    of_text_key: str
    text: str
    long_text: str
    number: str
    time: str
    more_rights: Callable[[SinkTable], Sequence[str]] = lambda table: ()


POSTGRESQL = Dialect(
    quote='"',
    exact_names=True,
    of_table="",
    of_text_key="",
    text="text",
    long_text="text",
    number="bigint",
    time="timestamp with time zone NOT NULL DEFAULT now()",
    # A transaction that is prepared uses no temporary table: it makes an ordinary one, and drops it.
    more_rights=lambda table: (
        f'{"USAGE, CREATE" if table.mode == "two_phase" else "USAGE"} ON SCHEMA "{table.schema or "public"}"',
    ),
)


def mysql(version: str) -> Dialect:
    """Args: version: as the server tells it."""
    is_maria = "mariadb" in version.lower()
    collation = "utf8mb4_nopad_bin" if is_maria else "utf8mb4_0900_bin"
    return Dialect(
        quote="`",
        exact_names=False,
        of_table=f" ENGINE=InnoDB CHARACTER SET utf8mb4 COLLATE {collation}",
        of_text_key=f" CHARACTER SET utf8mb4 COLLATE {collation}",
        text=f"varchar({_NAME_MAX * 2})",
        long_text="longtext",
        number="bigint",
        time="datetime(6) NOT NULL DEFAULT (utc_timestamp(6))",
        more_rights=lambda table: (
            f"CREATE TEMPORARY TABLES ON {f'`{table.schema}`' if table.schema else ''}.*",
            *(["XA_RECOVER_ADMIN ON *.*"] if table.mode == "two_phase" and not is_maria else []),
        ),
    )


@dataclass(frozen=True)
class Ddl:
    """The statements of one sink.

    Args:
        user: who delivers, as the system writes it.
    """

    table: SinkTable
    dialect: Dialect
    user: str

    def missing(self, there: Sequence[str], has_key: bool, has_progress: bool) -> list[str]:
        """What makes the tables, in order. A sink whose table is new has got nothing.

        Args:
            there: the columns that the sink's table has; none: there is no such table. has_key: it finds a row by the
                key. has_progress: the table of progress knows the sink.
        """
        table, wanted = self.table, self._columns()
        keys = ", ".join(map(self._quoted, table.keys))
        if not there:
            made = [self._create(table.table, wanted, f"PRIMARY KEY ({keys})" if keys else None)]
        else:
            same = str if self.dialect.exact_names else str.lower
            known = {same(name) for name in there}
            new = {name: type_ for name, type_ in wanted.items() if same(name) not in known}
            alter = f"ALTER TABLE {self._name(table.table)} ADD"
            made = [f"{alter} COLUMN {self._quoted(name)} {type_};" for name, type_ in new.items()]
            made += [f"{alter} UNIQUE ({keys});"] if keys and not has_key else []
        if not there and has_progress:
            own = f"pipeline = '{table.pipeline}' AND sink = '{table.name}'"  # names as the file may have them
            made.append(f"DELETE FROM {self._name(PROGRESS)} WHERE {own};")
        return [*made, self._create(PROGRESS, self._of_progress(), "PRIMARY KEY (pipeline, sink)", if_missing=True)]

    def rights(self) -> list[str]:
        """What an administrator grants to another user who delivers."""
        on = [
            f"SELECT, INSERT, UPDATE, DELETE ON {self._name(self.table.table)}",
            f"SELECT, INSERT, UPDATE ON {self._name(PROGRESS)}",
            *self.dialect.more_rights(self.table),
        ]
        return [f"GRANT {right} TO {self.user};" for right in on]

    def _columns(self) -> dict[str, str]:
        table = self.table
        found = {}
        for column, type_ in zip(table.columns, table.types, strict=True):
            is_text = column.is_key and word_of(column.type) == "STRING"
            of_key = (self.dialect.of_text_key if is_text else "") + (" NOT NULL" if column.is_key else "")
            found[column.name] = f"{type_}{of_key}"
        return found | ({table.flag: "boolean NOT NULL DEFAULT false"} if table.flag else {})

    def _of_progress(self) -> dict[str, str]:
        text, number = self.dialect.text, self.dialect.number
        return {
            "pipeline": f"{text} NOT NULL",
            "sink": f"{text} NOT NULL",
            "into_table": f"{text} NOT NULL UNIQUE",  # one writer for each table
            "table_id": f"{text} NOT NULL",
            "version": f"{number} NOT NULL",
            "generation": f"{number} NOT NULL",
            "batch_id": f"{number} NOT NULL",
            "attempt_id": text,
            "shape": self.dialect.long_text,
            "published_at": self.dialect.time,
        }

    def _create(self, name: str, columns: Mapping[str, str], key: str | None, if_missing: bool = False) -> str:
        named = [f"  {self._quoted(column)} {type_}" for column, type_ in columns.items()]
        lines = ",\n".join([*named, *([f"  {key}"] if key else [])])
        only = "IF NOT EXISTS " if if_missing else ""
        return f"CREATE TABLE {only}{self._name(name)} (\n{lines}\n){self.dialect.of_table};"

    def _name(self, name: str) -> str:
        return ".".join(map(self._quoted, filter(None, (self.table.schema, name))))

    def _quoted(self, name: str) -> str:
        quote = self.dialect.quote
        return quote + name.replace(quote, quote * 2) + quote
