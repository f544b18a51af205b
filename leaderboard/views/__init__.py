"""Pages: each parses, calls one query or service, renders."""

from leaderboard.views.accounts import account, log_in_elsewhere, revoke_token, sign_up, tokens
from leaderboard.views.artefacts import artefact, manifest
from leaderboard.views.comparison import compare_scorers
from leaderboard.views.health import healthz
from leaderboard.views.history import history
from leaderboard.views.invitations import invitations, revoke_invitation
from leaderboard.views.models import model
from leaderboard.views.operate import check_now, operate, rescore_metric, steer_rescoring
from leaderboard.views.rankings import rankings

__all__ = [
    "account",
    "artefact",
    "check_now",
    "compare_scorers",
    "healthz",
    "history",
    "invitations",
    "log_in_elsewhere",
    "manifest",
    "model",
    "operate",
    "rankings",
    "rescore_metric",
    "revoke_invitation",
    "revoke_token",
    "sign_up",
    "steer_rescoring",
    "tokens",
]
