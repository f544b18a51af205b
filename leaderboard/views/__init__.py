"""Pages: each parses, calls one query or service, renders."""

from leaderboard.views.about import about, changes
from leaderboard.views.accounts import account, log_in_elsewhere, revoke_token, sign_up, tokens
from leaderboard.views.agreement import agreement
from leaderboard.views.api_guide import api_guide
from leaderboard.views.artefacts import artefact, manifest
from leaderboard.views.audit import audit
from leaderboard.views.badges import badge
from leaderboard.views.compare import compare
from leaderboard.views.comparison import compare_scorers
from leaderboard.views.demographics import demographics
from leaderboard.views.docs import docs, docs_extending, docs_metrics, docs_operating, docs_threats
from leaderboard.views.downloads import board_download
from leaderboard.views.drift import drift
from leaderboard.views.embedding import embed, oembed
from leaderboard.views.health import healthz, prometheus, readyz
from leaderboard.views.history import history
from leaderboard.views.hosseini import agreement_published
from leaderboard.views.invitations import invitations, revoke_invitation
from leaderboard.views.metrics import metric
from leaderboard.views.models import model
from leaderboard.views.moderation import decide_entry, moderate, moderation
from leaderboard.views.operate import (
    check_now,
    drift_policy,
    operate,
    operate_workers,
    rescore_metric,
    restart_worker,
    retire_scorer,
    steer_rescoring,
)
from leaderboard.views.operate_files import operate_files, steer_file
from leaderboard.views.operate_models import operate_model, operate_models, steer_model
from leaderboard.views.operate_work import operate_work, retry_all, steer_work
from leaderboard.views.rankings import export, rankings
from leaderboard.views.samples import model_samples
from leaderboard.views.submissions import (
    cancel_submission,
    change_submission,
    correct_submission,
    retry_submission,
    submission,
    submission_letters,
    submissions,
    withdraw_submission,
)
from leaderboard.views.submit_outputs import outputs_template, submit_outputs, submit_tool
from leaderboard.views.submitting import submit, submit_hub

__all__ = [
    "about",
    "account",
    "agreement",
    "agreement_published",
    "api_guide",
    "artefact",
    "audit",
    "badge",
    "board_download",
    "cancel_submission",
    "change_submission",
    "changes",
    "check_now",
    "compare",
    "compare_scorers",
    "correct_submission",
    "decide_entry",
    "demographics",
    "docs",
    "docs_extending",
    "docs_metrics",
    "docs_operating",
    "docs_threats",
    "drift",
    "drift_policy",
    "embed",
    "export",
    "healthz",
    "history",
    "invitations",
    "log_in_elsewhere",
    "manifest",
    "metric",
    "model",
    "model_samples",
    "moderate",
    "moderation",
    "oembed",
    "operate",
    "operate_files",
    "operate_model",
    "operate_models",
    "operate_work",
    "operate_workers",
    "outputs_template",
    "prometheus",
    "rankings",
    "readyz",
    "rescore_metric",
    "restart_worker",
    "retire_scorer",
    "retry_all",
    "retry_submission",
    "revoke_invitation",
    "revoke_token",
    "sign_up",
    "steer_file",
    "steer_model",
    "steer_rescoring",
    "steer_work",
    "submission",
    "submission_letters",
    "submissions",
    "submit",
    "submit_hub",
    "submit_outputs",
    "submit_tool",
    "tokens",
    "withdraw_submission",
]
