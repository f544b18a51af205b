from typing import Any

from django.core.management.base import CommandParser

from leaderboard.management.lookup import user_called
from leaderboard.management.output import BoardCommand
from leaderboard.services.roles import ROLES, operates, set_role


class Command(BoardCommand):
    help = "Say what somebody may do: " + "; ".join(f"{role.name}: {role.may}" for role in ROLES) + "."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", help="name or e-mail address")
        parser.add_argument("role", choices=[role.name for role in ROLES])

    def handle(self, user: str, role: str, **options: Any) -> None:
        found = user_called(user)
        given = set_role(found, role)
        self.say(f"{found.get_username()} is {given.name} now and may {given.may}")
        if given.name != "operator" and operates(found):
            self.say(f"{found.get_username()} runs the board all the same, being staff")
        self.answer({"user": found.get_username(), "role": given.name, "operates": operates(found)})
