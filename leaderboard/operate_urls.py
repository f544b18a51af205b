"""Addresses under /operate/."""

from django.urls import path

from leaderboard import views

urlpatterns = [
    path("", views.operate, name="operate"),
    path("workers/", views.operate_workers, name="operate-workers"),
    path("workers/<str:name>/restart/", views.restart_worker, name="restart-worker"),
    path("work/", views.operate_work, name="operate-work"),
    path("work/retry/", views.retry_all, name="retry-all"),
    path("work/<slug:kind>/<int:pk>/<slug:step>/", views.steer_work, name="steer-work"),
    path("metrics/<slug:slug>/check/", views.check_now, name="check-now"),
    path("metrics/<slug:slug>/rescore/", views.rescore_metric, name="rescore"),
    path("metrics/<slug:slug>/policy/", views.drift_policy, name="drift-policy"),
    path("metrics/<slug:slug>/retire/", views.retire_scorer, name="retire-scorer"),
    path("rescorings/<int:pk>/<slug:step>/", views.steer_rescoring, name="steer-rescoring"),
    path("files/", views.operate_files, name="operate-files"),
    path("files/<slug:sha256>/<slug:step>/", views.steer_file, name="steer-file"),
    path("models/", views.operate_models, name="operate-models"),
    path("models/<slug:slug>/", views.operate_model, name="operate-model"),
    path("models/<slug:slug>/<slug:step>/", views.steer_model, name="steer-model"),
    path("submissions/", views.moderation, name="moderation"),
    path("submissions/<int:pk>/<slug:decision>/", views.moderate, name="moderate"),
    path("entries/<int:pk>/<slug:decision>/", views.decide_entry, name="decide-entry"),
    path("audit/", views.audit, name="audit"),
    path("invitations/", views.invitations, name="invitations"),
    path("invitations/<int:pk>/revoke/", views.revoke_invitation, name="revoke-invitation"),
]
