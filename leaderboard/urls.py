from django.urls import include, path, re_path

from leaderboard import views

urlpatterns = [
    path("", views.rankings, name="rankings"),
    path("history/", views.history, name="history"),
    path("models/<slug:slug>/", views.model, name="model"),
    path("compare-scorers/", views.compare_scorers, name="compare_scorers"),
    path("operate/", views.operate, name="operate"),
    path("operate/<slug:slug>/check/", views.check_now, name="check-now"),
    path("operate/<slug:slug>/rescore/", views.rescore_metric, name="rescore"),
    path("operate/rescorings/<int:pk>/<slug:step>/", views.steer_rescoring, name="steer-rescoring"),
    path("operate/invitations/", views.invitations, name="invitations"),
    path("operate/invitations/<int:pk>/revoke/", views.revoke_invitation, name="revoke-invitation"),
    path("accounts/", include("leaderboard.account_urls")),
    path("metrics/<slug:slug>/versions/<int:number>/manifest.json", views.manifest, name="manifest"),
    re_path(r"^artefacts/(?P<sha256>[0-9a-f]{64})\.parquet$", views.artefact, name="artefact"),
    path("healthz", views.healthz, name="healthz"),
]
