from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from leaderboard.management.lookup import metric_called
from leaderboard.management.output import BoardCommand
from leaderboard.management.progress import progress_of
from leaderboard.rankings.versions import choose_version, with_versions
from leaderboard.services.manifest import passes_on, write_folder


class Command(BoardCommand):
    help = "Write a published version to a folder that `python -m scoring check-manifest` verifies without the board."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("metric", help="slug of the metric")
        parser.add_argument("--metric-version", type=int, metavar="N", help="default: the current one")
        parser.add_argument("--output", type=Path, required=True, metavar="FOLDER", help="made where it is missing")

    def handle(self, metric: str, metric_version: int | None, output: Path, **options: Any) -> None:
        version = choose_version(with_versions(metric_called(metric)), metric_version)
        with progress_of("manifest", "artefact") as show:
            path = write_folder(version, output, show)
        self.say(f"{version}: {path}; check it with `python -m scoring check-manifest {output}`")
        texts = version.protocol.evaluation_set
        if version.measured and not passes_on(texts):
            self.say(
                f"The folder holds the texts of {texts.slug}, for which no licence is stated "
                f"({texts.licence or 'none given'}): think before you pass it on."
            )
        self.answer({"metric": version.metric.slug, "version": version.number, "manifest": str(path)})
