"""Pages: each parses, calls one query or service, renders."""

from leaderboard.views.artefacts import artefact, manifest
from leaderboard.views.comparison import compare_scorers
from leaderboard.views.health import healthz
from leaderboard.views.models import model
from leaderboard.views.rankings import rankings

__all__ = ["artefact", "compare_scorers", "healthz", "manifest", "model", "rankings"]
