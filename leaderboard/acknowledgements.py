"""A lost acknowledgement costs a worker nothing: kombu's own Redis transport would never take a message again.

A worker takes a message only where those that it has not acknowledged leave room. Where an acknowledgement does not
reach the broker (it was slow, or away for seconds), Celery logs that and goes on, but the message counts for ever: with
room for one, the worker lives, says so, and does no work. Here it no longer counts. The broker gives the message out
again after its visibility timeout, and finds in the database that its work is done.
"""

from typing import Any

from kombu.transport import redis, virtual


class ForgivingQoS(redis.QoS):
    """Counts a message as acknowledged whether or not the broker has heard of it."""

    def ack(self, delivery_tag: str) -> None:
        """Acknowledge a message. Raises what the connection to the broker raises, which Celery logs."""
        try:
            self._remove_from_indices(delivery_tag).execute()
        finally:
            virtual.QoS.ack(self, delivery_tag)

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        """Refuse a message, or give it back. Raises as `ack` does."""
        try:
            super().reject(delivery_tag, requeue=requeue)
        finally:
            virtual.QoS.ack(self, delivery_tag)


def forgive_lost_acknowledgements() -> None:
    """Have every channel to Redis of this process count so."""
    channel: Any = redis.Channel
    channel.QoS = ForgivingQoS
