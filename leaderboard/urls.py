from django.urls import path, re_path

from leaderboard import views

urlpatterns = [
    path("", views.rankings, name="rankings"),
    path("models/<slug:slug>/", views.model, name="model"),
    path("compare-scorers/", views.compare_scorers, name="compare_scorers"),
    path("metrics/<slug:slug>/versions/<int:number>/manifest.json", views.manifest, name="manifest"),
    re_path(r"^artefacts/(?P<sha256>[0-9a-f]{64})\.parquet$", views.artefact, name="artefact"),
    path("healthz", views.healthz, name="healthz"),
]
