"""How this process reaches the S3-compatible store of a lake: one answer for boto3, deltalake and Spark.

boto3 finds everything by the usual ways of AWS: environment, profile, web identity, container, instance role;
`AWS_ENDPOINT_URL_S3`, `AWS_REGION`, `AWS_CA_BUNDLE`. deltalake gets what it has found. Spark's S3A gets what is no
secret, and finds the credentials by the same ways on each of its machines.
"""

from __future__ import annotations

import os
from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from include.lake.s3.errors import answering
from include.protocol.errors import StoreRefuses

if TYPE_CHECKING:
    import boto3

CONNECT_SECONDS, ANSWER_SECONDS = 5, 20  # of one request
TRIES = 4  # of a request that may be sent again
_SETTINGS = "the settings of AWS, where this process reads them"
_CREDENTIALS_OF_SPARK = "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"  # the same ways, in Java
_LOG_STORE_OF_SPARK = "lakemark.S3LogStore"
_BUSY_TRIES = 6  # of Spark's, at a store that is busy: some thirteen seconds
_SECONDS_OF_SPARK = "20s"  # of one request; S3A makes fifteen of less


requests: Counter[str] = Counter()  # that this process has sent by boto3, also again, by operation


def client(once: bool = False) -> Any:  # Any: boto3 makes its clients' classes while it runs
    """boto3's client. Threads share it; a forked process makes its own.

    Args:
        once: it sends every request once, whatever comes of it; else up to TRIES times.
    """
    try:
        with answering(_SETTINGS):
            return _client(os.getpid(), once)
    except ValueError as error:  # botocore's of an address that is none
        raise StoreRefuses(
            what="the lake's store cannot be found",
            where=_SETTINGS,
            expected="AWS_ENDPOINT_URL_S3=http://HOST:PORT, or https://HOST",
            found=str(error),
            action="correct AWS_ENDPOINT_URL_S3, then run the same again (or rerun the task)",
        ) from error


@lru_cache(maxsize=4)
def _client(pid: int, once: bool) -> Any:
    from botocore.config import Config

    session = _session(pid)
    tries = {"mode": "standard", "total_max_attempts": 1 if once else TRIES}
    style = {} if _endpoint(session) is None else {"s3": {"addressing_style": "path"}}
    config = Config(connect_timeout=CONNECT_SECONDS, read_timeout=ANSWER_SECONDS, retries=tries, **style)
    made = session.client("s3", config=config)
    made.meta.events.register("before-send.s3", _count)
    made.meta.events.register("before-call.s3", _stay)
    return made


def forget() -> None:
    """Looks for all settings and credentials anew, at the next request."""
    _client.cache_clear()
    _session.cache_clear()


def _count(event_name: str, **_: object) -> None:
    requests[event_name.rpartition(".")[2]] += 1


def _stay(context: dict[str, Any], **_: object) -> None:  # Any: botocore's notes on a request
    """Keeps botocore from looking for the bucket in other regions: deltalake and Spark do not look, and behind a server
    that redirects everything it looks without end."""
    context.get("s3_redirect", {})["redirected"] = True


@lru_cache(maxsize=2)
def _session(pid: int) -> boto3.Session:
    import boto3  # a tenth of a second, which a local lake need not pay

    return boto3.Session()


def transfers() -> Any:  # Any: boto3 is slow to import
    """How boto3 writes a large object: in parts, one after the other; the caller has threads of its own."""
    from boto3.s3.transfer import TransferConfig

    return TransferConfig(use_threads=False)


def address() -> str:
    """Where the store answers, as a URL. It is written down, so it has no login."""
    parts = urlsplit(str(client().meta.endpoint_url))
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _endpoint(session: boto3.Session) -> str | None:
    """The address that somebody has set; None: Amazon's own."""
    found = session.client("s3").meta.endpoint_url
    return None if found.endswith(".amazonaws.com") else found


def delta_options() -> dict[str, str]:
    """What deltalake has to know. It holds the secret, which may expire: make it anew whenever a table is opened."""
    s3, session = client(), _session(os.getpid())
    with answering(_SETTINGS):
        credentials = session.get_credentials()
    options = {
        "aws_endpoint": s3.meta.endpoint_url,
        "aws_region": s3.meta.region_name,
        "aws_allow_http": str(s3.meta.endpoint_url.startswith("http:")).lower(),
        "conditional_put": "etag",
        "connect_timeout": f"{CONNECT_SECONDS}s",
        "timeout": f"{ANSWER_SECONDS}s",
        "max_retries": str(TRIES - 1),
        "retry_timeout": f"{TRIES * ANSWER_SECONDS}s",
    }
    if credentials is not None:
        with answering(_SETTINGS):
            found = credentials.get_frozen_credentials()
        options |= {"aws_access_key_id": found.access_key, "aws_secret_access_key": found.secret_key}
        options |= {"aws_session_token": found.token} if found.token else {}
    ca = session._session.get_config_variable("ca_bundle")
    return options | ({"certificate_path": ca} if ca else {})


def spark_options() -> dict[str, str]:
    """Spark's options for a lake on this store. They hold no secret: every machine of Spark's finds its credentials by
    the usual ways of AWS."""
    s3 = client()
    of_s3a = {
        "endpoint": s3.meta.endpoint_url,
        "endpoint.region": s3.meta.region_name,
        "path.style.access": "true",
        "aws.credentials.provider": _CREDENTIALS_OF_SPARK,
        "connection.request.timeout": _SECONDS_OF_SPARK,
        "connection.establish.timeout": _SECONDS_OF_SPARK,
        "connection.timeout": _SECONDS_OF_SPARK,
        "attempts.maximum": str(TRIES - 1),
        "retry.limit": str(TRIES - 1),
        "retry.interval": "200ms",
        "retry.throttle.limit": str(_BUSY_TRIES),
        "retry.throttle.interval": "200ms",  # it doubles: by default, after twenty tries, for days
    }
    return {
        # One form of names for all: `s3://`. Hadoop's own name for its implementation is s3a.
        "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        "spark.delta.logStore.s3.impl": _LOG_STORE_OF_SPARK,
        "spark.hadoop.io.delta.kernel.logStore.s3.impl": _LOG_STORE_OF_SPARK,
        **{f"spark.hadoop.fs.s3a.{name}": value for name, value in of_s3a.items()},
    }
