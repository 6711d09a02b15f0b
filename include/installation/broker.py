"""The embedded Kafka broker: one real KRaft node, from its JARs, on the loopback address."""

from __future__ import annotations

import subprocess
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from include.installation.jars import jar_paths
from include.installation.java import Java

HEAP = "-Xmx512m"


@dataclass(frozen=True)
class Broker:
    java: Java
    jars: Path
    data: Path  # folder for the log segments and the configuration; survives restarts
    port: int
    controller_port: int
    options: Mapping[str, str] = field(default_factory=dict)  # more server properties; they win over ours

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    def command(self) -> list[str]:
        """The command that runs the node in the foreground. Call `prepare` first."""
        return [*self._java_command(), "kafka.Kafka", str(self._properties)]

    def prepare(self) -> None:
        """Writes the configuration, and formats the storage if it is not formatted yet."""
        self.data.mkdir(parents=True, exist_ok=True)
        properties = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{self.controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "log.dirs": str(self.data / "log"),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.num.partitions": "1",
            "auto.create.topics.enable": "false",
            "log.retention.hours": "-1",
            "group.initial.rebalance.delay.ms": "0",
            **self.options,
        }
        self._properties.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        if (self.data / "log" / "meta.properties").exists():
            return
        cluster_id = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        subprocess.run(
            [
                *(*self._java_command(), "kafka.tools.StorageTool", "format"),
                f"--cluster-id={cluster_id}",  # one argument, because an id may begin with a dash
                *("--config", str(self._properties)),
            ],
            check=True,
            stdout=subprocess.DEVNULL,
        )

    @property
    def _properties(self) -> Path:
        return self.data / "server.properties"

    def _java_command(self) -> list[str]:
        classpath = ":".join(map(str, jar_paths(self.jars, "broker")))
        quiet = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.apache.logging.log4j.level=WARN"]
        return [str(self.java.binary), HEAP, *quiet, "-cp", classpath]
