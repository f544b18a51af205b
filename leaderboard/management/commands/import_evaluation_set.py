import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
from django.core.management.base import BaseCommand, CommandError, CommandParser

from leaderboard.management.progress import file_progress
from leaderboard.services.evaluation_sets import import_file
from scoring.evaluation_sets import EvaluationSetError, UnknownEvaluationSetError

MOST_BYTES = 2**30


class Command(BaseCommand):
    help = "Import a labelled evaluation set (toxigen-human, implicit-hate) from a file in the SafeNLP JSON format."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("slug", help="toxigen-human or implicit-hate")
        parser.add_argument("source", metavar="PATH|URL", help="the JSON file, or its https address")

    def handle(self, slug: str, source: str, **options: Any) -> None:
        try:
            if source.startswith(("https://", "http://")):
                with tempfile.TemporaryDirectory() as folder:
                    sentences, new = import_file(slug, self.download(source, Path(folder)))
            else:
                sentences, new = import_file(slug, Path(source))
        except (EvaluationSetError, UnknownEvaluationSetError, httpx.HTTPError, OSError) as error:
            raise CommandError(str(error)) from error
        rows = sentences.artefact.rows if sentences.artefact else 0
        if new:
            self.stdout.write(f"{sentences}: {rows:,} sentences, {len(sentences.counts)} demographics")
        else:
            self.stdout.write(f"{sentences} already has exactly these {rows:,} sentences: nothing to do")

    def download(self, url: str, folder: Path) -> Path:
        """Bring the file at `url` into `folder`, with a progress bar."""
        path = folder / (Path(urlsplit(url).path).name or "evaluation-set.json")
        with (
            httpx.stream("GET", url, follow_redirects=True, timeout=30) as response,
            path.open("wb") as file,
            file_progress() as progress,
        ):
            response.raise_for_status()
            total = int(response.headers.get("Content-Length", 0))
            done = 0
            for chunk in response.iter_bytes():
                done += len(chunk)
                if done > MOST_BYTES:
                    raise CommandError(f"{url} is larger than {MOST_BYTES:,} bytes: download it and give its path")
                file.write(chunk)
                progress(path.name, done, total)
        return path
