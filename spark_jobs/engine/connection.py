"""The connection to a Spark Connect server: it brings the server's token, and notices a server that has fallen silent.

The client itself waits for ever if a server takes its connection and then answers nothing (a JVM that was stopped, or
that only collects garbage). So a second connection asks for something that no server has, every few seconds: to be
refused is an answer. A server that cannot be reached at all is being restarted, and the client tries again by itself.

gRPC has no types for its calls, so they are `Any`.
"""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Literal, Self

import grpc
from pyspark.sql.connect.client import DefaultChannelBuilder

from include.protocol.errors import RetryableError

SILENT_SECONDS_MAX = 20.0  # more than any pause of a server that still works
RESTART_SECONDS_MAX = 600.0  # the client's own retries end then
_PAUSE_SECONDS, _ANSWER_SECONDS = 1.0, 5.0
_TOLD_FIRST_SECONDS, _TOLD_EVERY_SECONDS = 3.0, 15.0
# While a server is away, gRPC tries to reach it less and less often, in the end every two minutes. One that has been
# restarted is noticed at the next try.
_RECONNECTS = [("grpc.initial_reconnect_backoff_ms", 200), ("grpc.max_reconnect_backoff_ms", 1_000)]
_NO_SUCH_METHOD = "/lakemark.Watch/Answers"


class Connection(DefaultChannelBuilder):
    """Makes the channels to a server. In its block a thread watches the server.

    Args:
        remote: `sc://host:port`. token: what the server asks of its clients; None: nothing.
    """

    def __init__(self, remote: str, token: str | None) -> None:
        super().__init__(remote, channelOptions=_RECONNECTS)
        self._url, self._own_token = remote, token
        self._remote = remote.partition(";")[0].rstrip("/")  # for people: without a token
        self._channels: list[grpc.Channel] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="spark-server-watch", daemon=True)
        self.problem: RetryableError | None = None  # the server has fallen silent

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def toChannel(self) -> grpc.Channel:
        channel = super().toChannel()
        self._channels.append(channel)
        return grpc.intercept_channel(channel, _Calls(self._told, self._own_token))

    def _told(self) -> RetryableError | None:
        return self.problem

    def _watch(self) -> None:
        options = [*_RECONNECTS, ("grpc.use_local_subchannel_pool", 1)]
        with DefaultChannelBuilder(self._url, channelOptions=options).toChannel() as channel:
            ask = channel.unary_unary(_NO_SUCH_METHOD)
            answered = time.monotonic()
            told = answered - _TOLD_EVERY_SECONDS + _TOLD_FIRST_SECONDS
            away_since: float | None = None
            while not self._ended.wait(_PAUSE_SECONDS):
                state, now = self._look(ask), time.monotonic()
                if state == "silent":
                    if now - answered > SILENT_SECONDS_MAX:
                        self._give_up(now - answered)
                        return
                    continue
                answered = now  # whatever is away is not silent
                away_since = (away_since or now) if state == "away" else None
                if away_since is not None and now - told > _TOLD_EVERY_SECONDS:
                    told = now
                    _say(
                        f"waiting for the Spark server at {self._remote}: it takes no connection since "
                        f"{now - away_since:.0f} s; waiting at most {RESTART_SECONDS_MAX:.0f} s"
                    )

    def _look(self, ask: Any) -> Literal["answers", "away", "silent"]:
        try:
            ask(b"", timeout=_ANSWER_SECONDS)
        except grpc.RpcError as error:
            match error.code():
                case grpc.StatusCode.DEADLINE_EXCEEDED:
                    return "silent"
                case grpc.StatusCode.UNAVAILABLE:  # also if it takes a connection and then says nothing
                    return "silent" if self._takes_connections() else "away"
        return "answers"

    def _takes_connections(self) -> bool:
        """Whether something takes a connection and keeps it. (A proxy before a server that is away ends it.)"""
        try:
            with socket.create_connection((self.url.hostname, self._port), _ANSWER_SECONDS) as probe:
                return probe.recv(1) != b""
        except TimeoutError:
            return True
        except OSError:  # it is refused, or there is no way to that host
            return False

    def _give_up(self, silent: float) -> None:
        self.problem = RetryableError(
            what="the Spark server does not answer",
            where=self._remote,
            expected=f"an answer within {SILENT_SECONDS_MAX:.0f} s",
            found=f"none for {silent:.0f} s, while it takes connections or does not refuse them",
            action="see whether its process hangs or lacks memory, and start it again (here: `lakemark down`, then "
            "`lakemark up`); then run it again: nothing is lost",
        )
        # From now on no call begins, and those that wait for an answer end. A call that has just begun must have begun
        # in full: gRPC crashes if a channel is closed meanwhile.
        time.sleep(_PAUSE_SECONDS)
        for channel in self._channels:
            channel.close()


class _Calls(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor, grpc.StreamUnaryClientInterceptor):
    """Adds the token to every call, and says why it has failed if the server has fallen silent."""

    def __init__(self, problem: Callable[[], RetryableError | None], token: str | None) -> None:
        self._problem, self._token = problem, token

    def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
        return self._checked(continuation, details, request)

    def intercept_stream_unary(self, continuation: Any, details: Any, requests: Any) -> Any:
        return self._checked(continuation, details, requests)

    def intercept_unary_stream(self, continuation: Any, details: Any, request: Any) -> Any:
        return _Answers(self._started(continuation, details, request), self._problem)

    def _checked(self, continuation: Any, details: Any, request: Any) -> Any:
        call = self._started(continuation, details, request)
        if call.exception() is not None and (problem := self._problem()) is not None:
            raise problem
        return call

    def _started(self, continuation: Any, details: Any, request: Any) -> Any:
        if (problem := self._problem()) is not None:
            raise problem
        return continuation(details if self._token is None else _with_token(details, self._token), request)


class _Answers:
    """The answers of a call, one after the other."""

    def __init__(self, call: Any, problem: Callable[[], RetryableError | None]) -> None:
        self._call, self._problem = call, problem

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        try:
            return next(self._call)
        except grpc.RpcError as error:
            raise self._problem() or error from None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._call, name)


class _Details(grpc.ClientCallDetails):
    def __init__(self, of: Any, metadata: list[tuple[str, str]]) -> None:
        self.method, self.timeout, self.metadata = of.method, of.timeout, metadata
        self.credentials = of.credentials
        self.wait_for_ready, self.compression = getattr(of, "wait_for_ready", None), getattr(of, "compression", None)


def _with_token(details: Any, token: str) -> _Details:
    # gRPC's own way of tokens wants TLS, also to this machine's own loopback address.
    return _Details(details, [*(details.metadata or ()), ("authorization", f"Bearer {token}")])


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
