from django.apps import AppConfig


class LeaderboardConfig(AppConfig):
    """Plumbline's only application."""

    name = "leaderboard"
