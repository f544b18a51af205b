from typing import Any

from django.core.management.base import CommandParser

from leaderboard.management.output import RefusableCommand
from leaderboard.services.synthetic import Size, seed_synthetic


class Command(RefusableCommand):
    help = (
        "Fill an empty board with drawn numbers, as many as a large board has, for measuring how fast its pages are. "
        "Use a database of its own, as in PLUMBLINE_VAR=/tmp/synthetic."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--models", type=int, default=1000, help="models that the metric ranks (default: 1000)")
        parser.add_argument("--slices", type=int, default=14, help="of each measure, with the average among them")
        parser.add_argument("--versions", type=int, default=20, help="versions of the metric (default: 20)")
        parser.add_argument(
            "--seed", type=int, default=0, help="of the random numbers: the same ones for the same seed (default: 0)"
        )

    def handle(self, models: int, slices: int, versions: int, seed: int, **options: Any) -> None:
        metric = seed_synthetic(Size(models, slices, versions), seed, lambda line: self.stdout.write(line))
        self.stdout.write(f"{metric.slug}: {models} models x {slices} slices x {versions} versions")
