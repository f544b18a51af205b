from typing import Any

from django.core.management.base import CommandError, CommandParser

from leaderboard.management.lookup import model_called
from leaderboard.management.output import BoardCommand
from leaderboard.services.access import hide_model


class Command(BoardCommand):
    help = "Hide a model from every ranking and list, with a note on its page; or show it again."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("model", help="slug of the model")
        group = parser.add_mutually_exclusive_group(required=True)
        group.add_argument("--note", help="why, for the readers of its page")
        group.add_argument("--show", action="store_true", help="name it again")

    def handle(self, model: str, note: str | None, show: bool, **options: Any) -> None:
        if not show and not (note or "").strip():
            raise CommandError("--note is empty: say why it is hidden, for the readers of its page")
        was_changed = hide_model(model_called(model), note or "")
        self.say(f"{model} is {'shown' if show else 'hidden'}" + ("" if was_changed else " already"))
        self.answer({"model": model, "hidden": not show, "note": note, "changed": was_changed})
