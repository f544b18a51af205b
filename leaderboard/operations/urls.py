"""Addresses under /operate/."""

from django.urls import path

from leaderboard.operations.views import audit, board, files, models, successions, work
from leaderboard.people.views import invitations
from leaderboard.submissions.views import moderation

urlpatterns = [
    path("", board.operate, name="operate"),
    path("workers/", board.operate_workers, name="operate_workers"),
    path("workers/<str:name>/restart/", board.restart_worker, name="restart_worker"),
    path("work/", work.operate_work, name="operate_work"),
    path("work/retry/", work.retry_all, name="retry_all"),
    path("work/<slug:kind>/<int:pk>/<slug:step>/", work.steer_work, name="steer_work"),
    path("metrics/<slug:slug>/check/", board.check_now, name="check_now"),
    path("metrics/<slug:slug>/rescore/", board.rescore_metric, name="rescore"),
    path("metrics/<slug:slug>/policy/", board.drift_policy, name="drift_policy"),
    path("metrics/<slug:slug>/retire/", board.retire_scorer, name="retire_scorer"),
    path("metrics/<slug:slug>/successor/", successions.compare_successor, name="compare_successor"),
    path("successions/<int:pk>/begin/", successions.begin, name="begin_succession"),
    path("rescorings/<int:pk>/<slug:step>/", board.steer_rescoring, name="steer_rescoring"),
    path("files/", files.operate_files, name="operate_files"),
    path("files/<slug:sha256>/<slug:step>/", files.steer_file, name="steer_file"),
    path("models/", models.operate_models, name="operate_models"),
    path("models/<slug:slug>/", models.operate_model, name="operate_model"),
    path("models/<slug:slug>/<slug:step>/", models.steer_model, name="steer_model"),
    path("submissions/", moderation.moderation, name="moderation"),
    path("submissions/<int:pk>/<slug:decision>/", moderation.moderate, name="moderate"),
    path("entries/<int:pk>/<slug:decision>/", moderation.decide_entry, name="decide_entry"),
    path("audit/", audit.audit, name="audit"),
    path("invitations/", invitations.invitations, name="invitations"),
    path("invitations/<int:pk>/revoke/", invitations.revoke_invitation, name="revoke_invitation"),
]
