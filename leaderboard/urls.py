from django.contrib import admin
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
    path("operate/", include("leaderboard.operate_urls")),
    path("admin/", admin.site.urls),
    path("operate/submissions/", views.moderation, name="moderation"),
    path("operate/submissions/<int:pk>/<slug:decision>/", views.moderate, name="moderate"),
    path("submissions/", views.submissions, name="submissions"),
    path("submissions/letters/", views.submission_letters, name="submission-letters"),
    path("submit/outputs/", views.submit_outputs, name="submit-outputs"),
    re_path(
        r"^submit/outputs/template/(?P<slug>[-a-z0-9]+)\.(?P<kind>jsonl|csv)$",
        views.outputs_template,
        name="outputs-template",
    ),
    path("submit/tool/", views.submit_tool, name="submit-tool"),
    path("submit/", views.submit, name="submit"),
    path("submit/hub/", views.submit_hub, name="submit-hub"),
    path("submissions/<int:pk>/", views.submission, name="submission"),
    path("submissions/<int:pk>/cancel/", views.cancel_submission, name="cancel-submission"),
    path("submissions/<int:pk>/retry/", views.retry_submission, name="retry-submission"),
    path("submissions/<int:pk>/withdraw/", views.withdraw_submission, name="withdraw-submission"),
    path("submissions/<int:pk>/correct/", views.correct_submission, name="correct-submission"),
    path("submissions/<int:pk>/change/", views.change_submission, name="change-submission"),
    path("accounts/", include("leaderboard.account_urls")),
    path("metrics/<slug:slug>/versions/<int:number>/manifest.json", views.manifest, name="manifest"),
    re_path(r"^artefacts/(?P<sha256>[0-9a-f]{64})\.parquet$", views.artefact, name="artefact"),
    path("api/v1/", api.urls),
    path("healthz", views.healthz, name="healthz"),
]
