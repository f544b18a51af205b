"""The site: a living leaderboard of language models, on top of the `scoring` library."""

from leaderboard.celery import app as celery_app

__all__ = ["celery_app"]
