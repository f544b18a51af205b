"""Telling operators what went wrong, once, and that it is over."""

from leaderboard.operations.alerts.delivery import ALERTS, send_test
from leaderboard.operations.alerts.incidents import keep_looking, keep_standing_in, look

__all__ = ["ALERTS", "keep_looking", "keep_standing_in", "look", "send_test"]
