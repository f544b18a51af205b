from django.urls import include, path, re_path

from leaderboard import views
from leaderboard.api import api

urlpatterns = [
    path("", views.rankings, name="rankings"),
    re_path(r"^rankings\.(?P<name>csv|json|latex|markdown)$", views.export, name="export"),
    path("history/", views.history, name="history"),
    path("demographics/", views.demographics, name="demographics"),
    path("models/<slug:slug>/", views.model, name="model"),
    path("compare/", views.compare, name="compare"),
    path("agreement/", views.agreement, name="agreement"),
    path("agreement/published/", views.agreement_published, name="agreement_published"),
    path("models/<slug:slug>/samples/", views.model_samples, name="samples"),
    path("metrics/<slug:slug>/", views.metric, name="metric"),
    path("drift/", views.drift, name="drift"),
    path("about/", views.about, name="about"),
    path("about/changes/", views.changes, name="changes"),
    path("compare-scorers/", views.compare_scorers, name="compare_scorers"),
    path("operate/", views.operate, name="operate"),
    path("operate/<slug:slug>/check/", views.check_now, name="check-now"),
    path("operate/<slug:slug>/rescore/", views.rescore_metric, name="rescore"),
    path("operate/rescorings/<int:pk>/<slug:step>/", views.steer_rescoring, name="steer-rescoring"),
    path("operate/invitations/", views.invitations, name="invitations"),
    path("operate/invitations/<int:pk>/revoke/", views.revoke_invitation, name="revoke-invitation"),
    path("submissions/<int:pk>/", views.submission, name="submission"),
    path("accounts/", include("leaderboard.account_urls")),
    path("metrics/<slug:slug>/versions/<int:number>/manifest.json", views.manifest, name="manifest"),
    re_path(r"^artefacts/(?P<sha256>[0-9a-f]{64})\.parquet$", views.artefact, name="artefact"),
    path("api/", views.api_guide, name="api-guide"),
    path("api/v1/", api.urls),
    path("feeds/", include("leaderboard.feed_urls")),
    path("badges/<slug:model>/<slug:metric>.svg", views.badge, name="badge"),
    path("embed/", views.embed, name="embed"),
    path("oembed", views.oembed, name="oembed"),
    path("healthz", views.healthz, name="healthz"),
]
