"""Telling operators what went wrong, once, and that it is over."""

from leaderboard.services.alerts.delivery import deliver, send_test
from leaderboard.services.alerts.incidents import keep_looking, look

__all__ = ["deliver", "keep_looking", "look", "send_test"]
