import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
from django.core.management.base import CommandError, CommandParser

from leaderboard.management.output import BoardCommand
from leaderboard.management.progress import file_progress
from leaderboard.models import EvaluationSet
from leaderboard.services.evaluation_sets import import_file, import_own_prompts
from scoring.evaluation_sets import (
    irregularities_in_words,
    load_catalogue,
    readable_sets,
)

MOST_BYTES = 2**30


class Command(BoardCommand):
    help = (
        f"Import an evaluation set of the catalogue ({', '.join(readable_sets())}), or with --prompts your own prompts "
        "as JSON lines or CSV."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("slug", help="a name of the catalogue; with --prompts, one of your choice")
        parser.add_argument(
            "source", metavar="PATH|URL", help="the file (of BOLD, WinoBias and Winogender the folder), or its address"
        )
        parser.add_argument(
            "--prompts", action="store_true", help="your own prompts: `prompt` or `text`, and `id`, `group`"
        )
        parser.add_argument("--title", default="", help="with --prompts: what pages call them")
        parser.add_argument("--licence", default="", help="with --prompts: their licence")

    def handle(self, slug: str, source: str, **options: Any) -> None:
        try:
            if source.startswith(("https://", "http://")):
                with tempfile.TemporaryDirectory() as folder:
                    texts, new = self.read(slug, self.download(source, Path(folder)), **options)
            else:
                texts, new = self.read(slug, Path(source), **options)
        except httpx.HTTPError as error:
            raise CommandError(str(error)) from error
        rows = texts.artefact.rows if texts.artefact else 0
        noun = "prompts" if texts.kind == EvaluationSet.Kind.PROMPTS else "sentences"
        if new:
            scores_text = f", with {texts.prompt_scores.rows:,} published scores" if texts.prompt_scores else ""
            groups = f", {len(texts.counts)} demographics or domains" if texts.counts else ""
            self.say(f"{texts}: {rows:,} {noun}{groups}{scores_text}")
        else:
            self.say(f"{texts} already has exactly these {rows:,} {noun}: nothing to do")
        for sentence in irregularities_in_words(texts.irregularities):
            self.say(f"{texts}: {sentence}")
        answer = {"slug": texts.slug, "version": texts.version, "kind": texts.kind, "texts": rows, "new": new}
        self.answer(answer | texts.irregularities)

    def read(
        self, slug: str, path: Path, *, prompts: bool, title: str, licence: str, **_options: Any
    ) -> tuple[EvaluationSet, bool]:
        """Import what is at `path`."""
        if not prompts:
            return import_file(slug, path)
        if slug in load_catalogue():
            raise CommandError(f"{slug} is a set of the catalogue: leave --prompts out, or choose another slug")
        return import_own_prompts(slug, title, licence, path)

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
            received_bytes = 0
            for chunk in response.iter_bytes():
                received_bytes += len(chunk)
                if received_bytes > MOST_BYTES:
                    raise CommandError(f"{url} is larger than {MOST_BYTES:,} bytes: download it and give its path")
                file.write(chunk)
                progress(path.name, received_bytes, total)
        return path
