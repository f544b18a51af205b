"""Pages: each parses, calls one query or service, renders."""

from leaderboard.views.about import about, changes
from leaderboard.views.artefacts import artefact, manifest
from leaderboard.views.comparison import compare_scorers
from leaderboard.views.drift import drift
from leaderboard.views.health import healthz
from leaderboard.views.history import history
from leaderboard.views.metrics import metric
from leaderboard.views.models import model
from leaderboard.views.operate import check_now, operate, rescore_metric, steer_rescoring
from leaderboard.views.rankings import rankings

__all__ = [
    "about",
    "artefact",
    "changes",
    "check_now",
    "compare_scorers",
    "drift",
    "healthz",
    "history",
    "manifest",
    "metric",
    "model",
    "operate",
    "rankings",
    "rescore_metric",
    "steer_rescoring",
]
