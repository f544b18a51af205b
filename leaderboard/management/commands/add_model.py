from typing import Any

from django.core.management.base import CommandParser

from leaderboard.management.output import BoardCommand
from leaderboard.services.language_models import add_model, add_served


class Command(BoardCommand):
    help = "Enter a language model: a hub id, a local folder, a GGUF file, or a model behind a completions server."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "ref", help="org/name on the hub, a folder with safetensors, a .gguf file, or the model's name on --server"
        )
        parser.add_argument("--server", default="", help="address of a server that speaks OpenAI's /v1/completions")
        parser.add_argument(
            "--revision",
            default="",
            help="branch, tag or commit on the hub (default: main), pinned to its commit; of a server, what it serves",
        )
        parser.add_argument("--name", default="", help="name on the board (default: from the reference)")

    def handle(self, ref: str, server: str, revision: str, name: str, **options: Any) -> None:
        if server:
            model, new = add_served(ref, server, revision, name)
            summary = f"served at {server}"
        else:
            model, new = add_model(ref, revision or None, name)
            summary = f"{model.family}, {model.kind}, {model.parameters:,} parameters, {model.layers} layers"
        self.say(f"{model.slug} {'entered' if new else 'is already here'}: {summary}, revision {model.revision}")
        field_names = ("slug", "name", "family", "kind", "source", "location", "revision", "parameters", "layers")
        self.answer({"new": new} | {name: getattr(model, name) for name in field_names})
