"""A real broker that wants a name and a password."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from include.installation.broker import Broker
from include.installation.stack import Stack, free_port
from tests.support.waiting import wait_until

USER, PASSWORD = "lake", 'pl"anted-5ecret'
LOGIN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": USER,
    "sasl.password": PASSWORD,
}


@contextmanager
def guarded_broker(stack: Stack, folder: Path) -> Iterator[str]:
    """Its address; it is gone at the end."""
    port, controller = free_port(19092), free_port(19093)
    quoted = PASSWORD.replace('"', '\\\\"')  # for JAAS, and for the properties file around it
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    options = {
        "listeners": f"SASL_PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"SASL_PLAINTEXT://127.0.0.1:{port}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "inter.broker.listener.name": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
            f'{login} username="{USER}" password="{quoted}" user_{USER}="{quoted}";'
        ),
    }
    broker = Broker(stack.java, stack.settings.jars, folder, port, controller, options)
    broker.prepare()
    process = subprocess.Popen(broker.command(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: _answers(broker.bootstrap_servers), 60)
        yield broker.bootstrap_servers
    finally:
        process.kill()
        process.wait()


def _answers(servers: str) -> bool:
    try:
        return bool(AdminClient({"bootstrap.servers": servers, "log_level": 0, **LOGIN}).list_topics(timeout=2).brokers)
    except KafkaException:
        return False
