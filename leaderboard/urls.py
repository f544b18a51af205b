from django.contrib.auth.views import LoginView, LogoutView
from django.urls import path, re_path

from leaderboard import views

urlpatterns = [
    path("", views.rankings, name="rankings"),
    re_path(r"^rankings\.(?P<name>csv|json|latex|markdown)$", views.export, name="export"),
    path("history/", views.history, name="history"),
    path("models/<slug:slug>/", views.model, name="model"),
    path("compare-scorers/", views.compare_scorers, name="compare_scorers"),
    path("operate/", views.operate, name="operate"),
    path("operate/<slug:slug>/check/", views.check_now, name="check-now"),
    path("operate/<slug:slug>/rescore/", views.rescore_metric, name="rescore"),
    path("operate/rescorings/<int:pk>/<slug:step>/", views.steer_rescoring, name="steer-rescoring"),
    path("accounts/login/", LoginView.as_view(), name="login"),
    path("accounts/logout/", LogoutView.as_view(), name="logout"),
    path("metrics/<slug:slug>/versions/<int:number>/manifest.json", views.manifest, name="manifest"),
    re_path(r"^artefacts/(?P<sha256>[0-9a-f]{64})\.parquet$", views.artefact, name="artefact"),
    path("healthz", views.healthz, name="healthz"),
]
