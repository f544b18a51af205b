from typing import Any

from django.core.management.base import CommandParser

from leaderboard.management.lookup import model_called
from leaderboard.management.output import BoardCommand
from leaderboard.models import LanguageModel
from leaderboard.services.access import set_access


class Command(BoardCommand):
    help = "Open, restrict or withdraw a model, with a reason that the public change log shows."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("model", help="slug of the model")
        parser.add_argument("access", choices=LanguageModel.Access.values, help="who may use the model")
        parser.add_argument("--reason", required=True, help="why: stays in the change log for good")

    def handle(self, model: str, access: str, reason: str, **options: Any) -> None:
        was_changed = set_access(model_called(model), access, reason)
        self.say(f"{model} is {access}" + ("" if was_changed else " already"))
        self.answer({"model": model, "access": access, "changed": was_changed})
