"""Every address of the site; the wings and the API hold their own."""

from django.contrib import admin
from django.urls import include, path, re_path

from leaderboard.api import api, guide_page
from leaderboard.operations.views import health
from leaderboard.views import (
    about,
    agreement,
    artefacts,
    badges,
    compare,
    comparison,
    demographics,
    docs,
    downloads,
    drift,
    embedding,
    feeds,
    history,
    hosseini,
    metrics,
    models,
    rankings,
    samples,
    scenarios,
)

urlpatterns = [
    path("", rankings.rankings, name="rankings"),
    re_path(r"^rankings\.(?P<name>csv|json|latex|markdown)$", rankings.export, name="export"),
    path("history/", history.history, name="history"),
    path("demographics/", demographics.demographics, name="demographics"),
    path("models/<slug:slug>/", models.model, name="model"),
    path("compare/", compare.compare, name="compare"),
    path("agreement/", agreement.agreement, name="agreement"),
    path("agreement/published/", hosseini.agreement_published, name="agreement_published"),
    path("models/<slug:slug>/samples/", samples.model_samples, name="samples"),
    path("metrics/<slug:slug>/", metrics.metric, name="metric"),
    path("metrics/<slug:slug>/scenarios/", scenarios.scenarios, name="scenarios"),
    re_path(
        r"^metrics/(?P<slug>[-\w]+)/scenarios\.(?P<name>csv|json)$", scenarios.scenarios_export, name="scenarios_export"
    ),
    path("drift/", drift.drift, name="drift"),
    path("about/", about.about, name="about"),
    path("about/changes/", about.changes, name="changes"),
    path("about/board.zip", downloads.board_download, name="board_download"),
    path("docs/", docs.docs, name="docs"),
    path("docs/operating/", docs.docs_operating, name="docs_operating"),
    path("docs/metrics/", docs.docs_metrics, name="docs_metrics"),
    path("docs/threats/", docs.docs_threats, name="docs_threats"),
    path("docs/extending/", docs.docs_extending, name="docs_extending"),
    path("compare-scorers/", comparison.compare_scorers, name="compare_scorers"),
    path("", include("leaderboard.submissions.urls")),
    path("operate/", include("leaderboard.operations.urls")),
    path("admin/", admin.site.urls),
    path("accounts/", include("leaderboard.people.urls")),
    path("metrics/<slug:slug>/versions/<int:number>/manifest.json", artefacts.manifest, name="manifest"),
    re_path(r"^artefacts/(?P<sha256>[0-9a-f]{64})\.parquet$", artefacts.artefact, name="artefact"),
    path("api/", guide_page.api_guide, name="api_guide"),
    path("api/v1/", api.urls),
    path("feeds/models.atom", feeds.new_models_feed, name="new_models_feed"),
    path("feeds/rank-changes.atom", feeds.rank_changes_feed, name="rank_changes_feed"),
    path("feeds/rank-changes/<slug:slug>.atom", feeds.rank_changes_feed, name="metric_rank_changes_feed"),
    path("feeds/drift.atom", feeds.drift_feed, name="drift_feed"),
    path("feeds/drift/<slug:slug>.atom", feeds.drift_feed, name="metric_drift_feed"),
    path("badges/<slug:model>/<slug:metric>.svg", badges.badge, name="badge"),
    path("embed/", embedding.embed, name="embed"),
    path("oembed", embedding.oembed, name="oembed"),
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", health.prometheus, name="prometheus"),
]
