"""Telling operators what went wrong, once, and that it is over."""

from leaderboard.services.alerts.delivery import deliver, send_test
from leaderboard.services.alerts.incidents import keep_looking, keep_standing_in, look

__all__ = ["deliver", "keep_looking", "keep_standing_in", "look", "send_test"]
