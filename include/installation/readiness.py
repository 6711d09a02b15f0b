"""Whether the services of `lakemark up` answer."""

from __future__ import annotations

import socket

import requests
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient


def kafka_answers(bootstrap_servers: str) -> bool:
    try:
        AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0}).list_topics(timeout=2)
    except KafkaException:
        return False
    return True


def store_answers(url: str) -> bool:
    try:
        return requests.get(url, timeout=5).status_code < 500
    except requests.RequestException:
        return False


def spark_answers(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def airflow_answers(url: str) -> bool:
    try:
        health = requests.get(f"{url}/api/v2/monitor/health", timeout=5).json()
    except (requests.RequestException, ValueError):
        return False
    parts = ("metadatabase", "scheduler", "dag_processor", "triggerer")
    return all(health.get(part, {}).get("status") == "healthy" for part in parts)
