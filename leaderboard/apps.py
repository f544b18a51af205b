from django.apps import AppConfig
from django.contrib.staticfiles.apps import StaticFilesConfig


class LeaderboardConfig(AppConfig):
    """Plumbline's only application."""

    name = "leaderboard"


class StaticFiles(StaticFilesConfig):
    """Static files; of what lies beside Plotly's script nothing is served."""

    ignore_patterns = [*StaticFilesConfig.ignore_patterns, "widgetbundle.js", "datasets", "templates"]
