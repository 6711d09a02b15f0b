"""A real broker of Kafka that a test may kill and freeze, with a link to it that may lose its answers."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from include.installation.broker import Broker
from include.installation.java import find_java
from include.settings import Settings
from tests.conftest import settings_in
from tests.support.lossy_link import LossyLink, lossy_link
from tests.support.sink_servers import free_port
from tests.support.waiting import wait_until


@dataclass
class SinkBroker:
    """See above. Deliveries reach it through `link`, readers do not."""

    broker: Broker
    link: LossyLink = field(repr=False)
    process: subprocess.Popen[bytes] | None = None

    @property
    def by_link(self) -> str:
        """The servers of who goes through the link."""
        return f"127.0.0.1:{self.link.port}"

    @property
    def servers(self) -> str:
        return self.broker.bootstrap_servers

    def start(self) -> None:
        with (self.broker.data / "log.txt").open("ab") as log:
            self.process = subprocess.Popen(self.broker.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_until(self._answers, 120)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def freeze(self, frozen: bool = True) -> None:
        """Stops it, or lets it go on."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP if frozen else signal.SIGCONT)

    def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, (self.broker.data / "log.txt").read_text()[-2000:]
        with suppress(KafkaException):
            return bool(AdminClient({"bootstrap.servers": self.servers, "log_level": 2}).list_topics(timeout=2).brokers)
        return False


@contextmanager
def sink_broker(folder: Path) -> Iterator[SinkBroker]:
    """A new one. Clients go where its metadata sends them: it listens on one port more, which it says is the link's."""
    settings: Settings = settings_in(folder / "home")
    own, inner, controller = (free_port() for _ in range(3))
    with lossy_link(inner) as link:
        options = {
            "listeners": ",".join(
                f"{name}://127.0.0.1:{port}"
                for name, port in {"PLAINTEXT": own, "LINK": inner, "CONTROLLER": controller}.items()
            ),
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{own},LINK://127.0.0.1:{link.port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LINK:PLAINTEXT,CONTROLLER:PLAINTEXT",
        }
        broker = Broker(
            find_java(settings.java, settings.home / "java"), settings.jars, folder / "kafka", own, controller, options
        )
        broker.prepare()
        found = SinkBroker(broker, link)
        found.start()
        try:
            yield found
        finally:
            found.freeze(False)
            found.kill()
