from typing import Any

from django.core.management.base import CommandError, CommandParser

from leaderboard.management.output import BoardCommand
from leaderboard.services.language_models import add_model, add_served


class Command(BoardCommand):
    help = "Enter language models: hub ids, local folders, GGUF files, or a model behind a completions server."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "refs",
            nargs="+",
            metavar="REF",
            help="org/name on the hub, a folder with safetensors, a .gguf file, or the model's name on --server",
        )
        parser.add_argument("--server", default="", help="address of a server that speaks OpenAI's /v1/completions")
        parser.add_argument(
            "--revision",
            default="",
            help="branch, tag or commit on the hub (default: main), pinned to its commit; of a server, what it serves",
        )
        parser.add_argument("--name", default="", help="name on the board, of one model (default: from the reference)")
        parser.add_argument(
            "--family", default="", help="the family that new models are listed under (default: their architecture's)"
        )

    def handle(self, refs: list[str], server: str, revision: str, name: str, family: str, **options: Any) -> None:
        if name and len(refs) > 1:
            raise CommandError(f"--name {name} is the name of one model, but {len(refs)} are given: leave it out")
        self.answer({"models": [self.enter(ref, server, revision, name, family) for ref in refs]})

    def enter(self, ref: str, server: str, revision: str, name: str, family: str) -> dict[str, Any]:
        """Enter one model, and describe it as --json prints it."""
        if server:
            model, new = add_served(ref, server, revision, name, family)
            summary = f"served at {server}"
        else:
            model, new = add_model(ref, revision or None, name, family)
            summary = f"{model.family}, {model.kind}, {model.parameters:,} parameters, {model.layers} layers"
        self.say(f"{model.slug} {'entered' if new else 'is already here'}: {summary}, revision {model.revision}")
        field_names = ("slug", "name", "family", "kind", "source", "location", "revision", "parameters", "layers")
        return {"new": new} | {name: getattr(model, name) for name in field_names}
