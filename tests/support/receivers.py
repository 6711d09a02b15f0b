"""Small servers that take what Airflow sends out: mail, and OpenLineage events over HTTP."""

from __future__ import annotations

import json
import socketserver
import threading
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml


class Mail:
    """An SMTP server that keeps what it is sent (RFC 5321, as much as a client without extensions needs)."""

    def __init__(self) -> None:
        self.messages: list[EmailMessage] = []
        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def environment(self, alerts: Path) -> dict[str, str]:
        """What makes Lakemark's alerts come here; writes their file."""
        arguments = {"to": "data@example.com", "from_email": "lakemark@example.com"}
        arguments |= {"subject": "{{ lakemark.title }}", "html_content": "{{ lakemark.text }}"}
        notifier = {"class": "airflow.providers.smtp.notifications.smtp.SmtpNotifier", "arguments": arguments}
        alerts.write_text(yaml.safe_dump([notifier]))
        port = self._server.server_address[1]
        connection = {"conn_type": "smtp", "host": "127.0.0.1", "port": port}
        plain = {"disable_ssl": True, "disable_tls": True}
        return {
            "LAKEMARK_ALERTS": str(alerts),
            "AIRFLOW_CONN_SMTP_DEFAULT": json.dumps({**connection, "extra": plain}),
        }

    def of(self, subject: str) -> list[str]:
        """Texts of the mails with this subject."""
        found = [m for m in self.messages if m["Subject"] == subject]
        return [m.get_body(("html", "plain")).get_content() for m in found]

    def _handler(mail) -> type[socketserver.StreamRequestHandler]:
        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                self._say("220 here")
                while line := self.rfile.readline():
                    command = line[:4].upper()
                    if command == b"DATA":
                        self._say("354 go on")
                        mail.messages.append(message_from_bytes(self._text(), policy=policy.default))
                    self._say("221 bye" if command == b"QUIT" else "250 good")

            def _text(self) -> bytes:
                lines = []
                while (line := self.rfile.readline()) != b".\r\n":
                    lines.append(line.removeprefix(b"."))
                return b"".join(lines)

            def _say(self, text: str) -> None:
                self.wfile.write(f"{text}\r\n".encode())

        return Handler


class Lineage:
    """An OpenLineage receiver: keeps every event."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        events = self.events

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                events.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(201)
                self.end_headers()

            def log_message(self, *arguments: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def environment(self) -> dict[str, str]:
        transport = {"type": "http", "url": f"http://127.0.0.1:{self._server.server_address[1]}"}
        return {"AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(transport)}

    def outputs(self, table: str) -> list[dict[str, Any]]:
        """Events that name a table as what they wrote."""
        return [e for e in self.events if any(o["name"].endswith(table) for o in e.get("outputs", []))]
