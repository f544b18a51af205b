from typing import Any, get_args

from django.core.management.base import CommandError, CommandParser

from leaderboard.management.output import BoardCommand
from leaderboard.models import LanguageModel
from leaderboard.services.language_models import add_model, add_served
from leaderboard.services.served import describe_likelihoods
from scoring.language_models import Precision


class Command(BoardCommand):
    help = "Enter language models: hub ids, local folders, GGUF files, or a model behind a completions server."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "refs",
            nargs="+",
            metavar="REF",
            help="org/name on the hub, a folder with safetensors, a .gguf file, or the model's name on --server",
        )
        parser.add_argument(
            "--server",
            default="",
            help="address of a server that speaks OpenAI's /v1/completions, or /v1/chat/completions for chat entries",
        )
        parser.add_argument(
            "--interface",
            default=LanguageModel.Interface.TEXT,
            choices=LanguageModel.Interface.values,
            help="how the model is prompted: as raw text (default), or as a chat; an entry of its own",
        )
        parser.add_argument(
            "--revision",
            default="",
            help="branch, tag or commit on the hub (default: main), pinned to its commit; of a server, what it serves; "
            "of a chat service, the snapshot as it names it",
        )
        parser.add_argument("--name", default="", help="name on the board, of one model (default: from the reference)")
        parser.add_argument(
            "--family", default="", help="the family that new models are listed under (default: their architecture's)"
        )

        parser.add_argument(
            "--precision",
            default="",
            choices=get_args(Precision),
            help="what the model is computed in, here (default: as the protocol of each metric says) or by --server "
            "(default: float32); an entry of its own",
        )

        parser.add_argument(
            "--weights",
            default="",
            metavar="REF",
            help="what --server serves (hub id, folder, GGUF file, bundled model): its likelihoods are compared",
        )

    def handle(self, refs: list[str], name: str, **options: Any) -> None:
        if name and len(refs) > 1:
            raise CommandError(f"--name {name} is the name of one model, but {len(refs)} are given: leave it out")
        if options["weights"] and not options["server"]:
            raise CommandError("--weights is for a model on --server: leave it out")
        names = ("server", "revision", "family", "precision", "interface", "weights")
        details = {key: options[key] for key in names}
        self.answer({"models": [self.enter(ref, name, **details) for ref in refs]})

    def enter(
        self,
        ref: str,
        name: str,
        server: str,
        revision: str,
        family: str,
        precision: str,
        interface: str,
        weights: str,
    ) -> dict[str, Any]:
        """Enter one model, and describe it as --json prints it."""
        if server:
            model, new = add_served(ref, server, revision, name, family, interface, precision, weights)
            summary = f"served at {server}; {describe_likelihoods(model)}"
        else:
            model, new = add_model(ref, revision or None, name, family, interface=interface, precision=precision)
            summary = f"{model.family}, {model.kind}, {model.parameters:,} parameters, {model.layers} layers"
            if model.precision_label:
                summary += f", {model.precision_label}"
        self.say(f"{model.slug} {'entered' if new else 'is already here'}: {summary}, revision {model.revision}")
        field_names = ("slug", "name", "family", "kind", "source", "location", "revision", "parameters", "layers")
        as_run = ("precision", "weight_format", "interface")
        return {"new": new} | {name: getattr(model, name) for name in (*field_names, *as_run)}
