from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from leaderboard.services.language_models import add_model
from scoring.language_models import HubUnavailable, ModelRefused


class Command(BaseCommand):
    help = "Enter a language model: a hub id, a local folder, or a GGUF file. Its revision is pinned."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("ref", help="org/name on the hub, a folder with safetensors, or a .gguf file")
        parser.add_argument("--revision", help="branch, tag or commit on the hub (default: main); pinned to its commit")
        parser.add_argument("--name", default="", help="name on the board (default: from the reference)")

    def handle(self, ref: str, revision: str | None, name: str, **options: Any) -> None:
        try:
            model, new = add_model(ref, revision, name)
        except (ModelRefused, HubUnavailable) as error:
            raise CommandError(str(error)) from error
        self.stdout.write(
            f"{model.slug} {'entered' if new else 'is already here'}: {model.family}, {model.kind}, "
            f"{model.parameters:,} parameters, {model.layers} layers, revision {model.revision}"
        )
