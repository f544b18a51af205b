from typing import Any

from django.core.management.base import BaseCommand

from leaderboard.services.seed import seed


class Command(BaseCommand):
    help = (
        "Fill a new board: metrics, published figures, evaluation sets at hand, bundled models. Changes nothing twice."
    )

    def handle(self, **options: Any) -> None:
        seed(say=lambda line: self.stdout.write(f"seed: {line}"))
