from typing import Any

from django.core.management.base import CommandParser

from leaderboard.management.lookup import identity_called, model_called
from leaderboard.management.output import BoardCommand
from leaderboard.services.identities import join_model, split_model


class Command(BoardCommand):
    help = "Show an entry on the page of the model that it belongs to; or make it a separate model."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("model", help="slug of the entry")
        group = parser.add_mutually_exclusive_group(required=True)
        group.add_argument(
            "--to",
            dest="identity_slug",
            metavar="SLUG",
            help="slug of the model that it is evidence about, or of another entry of that",
        )
        group.add_argument("--split", action="store_true", help="make it a separate model")
        parser.add_argument("--reason", required=True, help="why, for the change log")

    def handle(self, model: str, identity_slug: str | None, split: bool, reason: str, **options: Any) -> None:
        entry = model_called(model)
        if split:
            identity, was_changed = split_model(entry, reason), True
        else:
            identity = identity_called(identity_slug or "")
            was_changed = join_model(entry, identity, reason)
        self.say(f"{model} is an entry of {identity.slug}" + ("" if was_changed else " already"))
        self.answer({"model": model, "identity": identity.slug, "changed": was_changed})
