"""Messages that a worker has done with, while the broker does not hear that."""

import logging
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pytest
from django.conf import settings
from kombu import Connection, Consumer, Queue
from kombu.transport import redis

import leaderboard.worker
from leaderboard.acknowledgements import ForgivingQoS
from leaderboard.celery import app
from tests.environment import broker

IMPATIENT = {"socket_timeout": 1.0}  # seconds

pytestmark = pytest.mark.either_database


@contextmanager
def stopped_broker() -> Iterator[None]:
    """A broker that hears nothing for a moment, and answers late."""
    process = broker.client().info("server")["process_id"]
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process, signal.SIGCONT)


@pytest.fixture
def connection() -> Iterator[Connection]:
    with Connection(settings.BROKER_URL, transport_options=IMPATIENT) as connection:
        yield connection


def take_messages(connection: Connection, count: int) -> Iterator[Any]:
    """Send `count` messages, and take them as a worker with room for one does."""
    channel, messages = connection.channel(), []
    queue = Queue(uuid4().hex, durable=False, auto_delete=True)
    with Consumer(channel, [queue], on_message=messages.append) as consumer, connection.Producer() as producer:
        consumer.qos(prefetch_count=1)
        for number in range(count):
            producer.publish(number, routing_key=queue.name, declare=[queue])
        while len(messages) < count:
            connection.drain_events(timeout=10)
            yield messages[-1]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ack_log_error", "reject_log_error"])
def test_a_worker_takes_the_next_message_after_an_acknowledgement_was_lost(connection, name, caplog):
    messages = take_messages(connection, 2)
    first_message = next(messages)
    with stopped_broker():
        getattr(first_message, name)(logging.getLogger("tests"), connection.connection_errors)
    assert "Couldn't" in caplog.text
    assert next(messages).payload == 1


def test_workers_count_messages_so():
    assert leaderboard.worker.__name__ in app.conf.imports
    assert redis.Channel.QoS is ForgivingQoS
