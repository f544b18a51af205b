from typing import Any

from django.core.management.base import CommandParser

from leaderboard.management.lookup import user_called
from leaderboard.management.output import BoardCommand
from leaderboard.people.services.roles import ROLES, operates, set_role


class Command(BoardCommand):
    help = "Set what somebody may do: " + "; ".join(f"{role.name}: {role.may}" for role in ROLES) + "."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", help="name or e-mail address")
        parser.add_argument("role", choices=[role.name for role in ROLES], help="in place of the one before")

    def handle(self, user: str, role: str, **options: Any) -> None:
        account = user_called(user)
        new_role = set_role(account, role)
        self.say(f"{account.get_username()} is {new_role.name} now and may {new_role.may}")
        if new_role.name != "operator" and operates(account):
            self.say(f"{account.get_username()} runs the board all the same, being staff")
        self.answer({"user": account.get_username(), "role": new_role.name, "operates": operates(account)})
