import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
from django.core.management.base import CommandError, CommandParser

from leaderboard.management.output import BoardCommand
from leaderboard.management.progress import file_progress
from leaderboard.models import EvaluationSet
from leaderboard.services.evaluation_sets import import_file, import_own_prompts, import_own_texts
from scoring.evaluation_sets import (
    irregularities_in_words,
    load_catalogue,
    readable_sets,
)

MOST_BYTES = 2**30
NOUNS: dict[str, str] = {EvaluationSet.Kind.PROMPTS: "prompts", EvaluationSet.Kind.LABELLED_TEXTS: "labelled texts"}


class Command(BoardCommand):
    help = (
        f"Import an evaluation set of the catalogue ({', '.join(readable_sets())}), or with --prompts your own prompts "
        "as JSON lines or CSV, or with --labelled your own labelled texts, for report cards of scorers, as CSV, JSON "
        "lines or Parquet."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("slug", help="a name of the catalogue; of your own texts, one of your choice")
        parser.add_argument(
            "source",
            metavar="PATH|URL",
            help="the file, or its address; the folder of BOLD, WinoBias, Winogender, Multilingual HateCheck, RTP-LX",
        )
        own_texts = parser.add_mutually_exclusive_group()
        own_texts.add_argument(
            "--prompts", action="store_true", help="your own prompts: `prompt` or `text`, and `id`, `group`"
        )
        own_texts.add_argument(
            "--labelled",
            action="store_true",
            dest="with_labels",
            help="your own labelled texts: `text` and `label` (harmful or benign), and `id`, `groups`, `language`, "
            "`functionality`, `paraphrase_of`",
        )
        parser.add_argument("--title", default="", help="of your own texts: what pages call them")
        parser.add_argument("--licence", default="", help="of your own texts: their licence")
        parser.add_argument(
            "--from", default="", metavar="WORDS", help="of your own labelled texts: who made them, or their address"
        )
        parser.add_argument(
            "--language", default="", metavar="CODE", help="with --labelled: of texts whose rows name none"
        )

    def handle(self, slug: str, source: str, **options: Any) -> None:
        try:
            if source.startswith(("https://", "http://")):
                with tempfile.TemporaryDirectory() as folder:
                    texts, new = self.read(slug, self.download(source, Path(folder)), **options)
            elif not Path(source).exists():
                raise CommandError(f"{source} is not there: give a file, or an address that begins with https://")
            else:
                texts, new = self.read(slug, Path(source), **options)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise CommandError(f"{source} cannot be fetched ({error}): check the address") from error
        rows = texts.artefact.rows if texts.artefact else 0
        noun = NOUNS.get(texts.kind, "sentences")
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
        self, slug: str, path: Path, *, prompts: bool, with_labels: bool, title: str, licence: str, **options: Any
    ) -> tuple[EvaluationSet, bool]:
        """Import what is at `path`."""
        if not prompts and not with_labels:
            return import_file(slug, path)
        if slug in load_catalogue():
            option = "--prompts" if prompts else "--labelled"
            raise CommandError(f"{slug} is a set of the catalogue: leave {option} out, or choose another slug")
        if prompts:
            return import_own_prompts(slug, title, licence, path)
        return import_own_texts(
            slug, title, path, licence=licence, source=options["from"], language=options["language"]
        )

    def download(self, url: str, folder: Path) -> Path:
        """Bring the file at `url` into `folder`, with a progress bar."""
        path = folder / (Path(urlsplit(str(httpx.URL(url))).path).name or "evaluation-set.json")
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
