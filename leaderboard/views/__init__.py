"""Pages: each parses, calls one query or service, renders."""

from leaderboard.views.artefacts import artefact, manifest
from leaderboard.views.health import healthz
from leaderboard.views.models import model
from leaderboard.views.rankings import rankings

__all__ = ["artefact", "healthz", "manifest", "model", "rankings"]
