import tempfile
from pathlib import Path
from typing import Any

import httpx
from django.core.management.base import BaseCommand, CommandError, CommandParser

from leaderboard.management.progress import file_progress
from leaderboard.services.evaluation_sets import import_file
from scoring.evaluation_sets import EvaluationSetError, FetchError, UnknownEvaluationSet, download


class Command(BaseCommand):
    help = "Import a labelled evaluation set (toxigen-human, implicit-hate) from a file in the SafeNLP JSON format."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("slug", help="toxigen-human or implicit-hate")
        parser.add_argument("source", metavar="PATH|URL", help="the JSON file, or its https address")

    def handle(self, slug: str, source: str, **options: Any) -> None:
        try:
            if source.startswith(("https://", "http://")):
                with tempfile.TemporaryDirectory() as folder, file_progress() as progress:
                    path = Path(folder) / "evaluation-set.json"
                    download(source, path, progress=progress)
                    sentences, new = import_file(slug, path)
            else:
                sentences, new = import_file(slug, Path(source))
        except (EvaluationSetError, FetchError, UnknownEvaluationSet, httpx.HTTPError, OSError) as error:
            raise CommandError(str(error)) from error
        rows = sentences.artefact.rows if sentences.artefact else 0
        if new:
            self.stdout.write(f"{sentences}: {rows:,} sentences, {len(sentences.counts)} demographics")
        else:
            self.stdout.write(f"{sentences} already has exactly these {rows:,} sentences: nothing to do")
