"""Pages: each parses, calls one query or service, renders."""

from leaderboard.views.artefacts import artefact, manifest
from leaderboard.views.comparison import compare_scorers
from leaderboard.views.health import healthz
from leaderboard.views.history import history
from leaderboard.views.models import model
from leaderboard.views.operate import check_now, operate, rescore_metric, steer_rescoring
from leaderboard.views.rankings import export, rankings

__all__ = [
    "artefact",
    "check_now",
    "compare_scorers",
    "export",
    "healthz",
    "history",
    "manifest",
    "model",
    "operate",
    "rankings",
    "rescore_metric",
    "steer_rescoring",
]
