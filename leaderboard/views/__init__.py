"""Pages: each parses, calls one query or service, renders."""

from leaderboard.views.agreement import agreement
from leaderboard.views.artefacts import artefact, manifest
from leaderboard.views.compare import compare
from leaderboard.views.comparison import compare_scorers
from leaderboard.views.demographics import demographics
from leaderboard.views.health import healthz
from leaderboard.views.history import history
from leaderboard.views.hosseini import agreement_published
from leaderboard.views.models import model
from leaderboard.views.operate import check_now, operate, rescore_metric, steer_rescoring
from leaderboard.views.rankings import rankings
from leaderboard.views.samples import model_samples

__all__ = [
    "agreement",
    "agreement_published",
    "artefact",
    "check_now",
    "compare",
    "compare_scorers",
    "demographics",
    "healthz",
    "history",
    "manifest",
    "model",
    "model_samples",
    "operate",
    "rankings",
    "rescore_metric",
    "steer_rescoring",
]
