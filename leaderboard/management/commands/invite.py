from typing import Any

from django.conf import settings
from django.core.management.base import CommandParser

from leaderboard.management.output import BoardCommand
from leaderboard.people.services.accounts import needs_invitation
from leaderboard.people.services.invitations import DAYS, invite, send_invitation


class Command(BoardCommand):
    help = "Invite somebody: prints a link with which one person can sign up, once."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--email", default="", help="e-mail the link to this address; it works for no other")
        parser.add_argument("--days", type=int, default=DAYS, help=f"until it expires; {DAYS} unless told")

    def handle(self, email: str, days: int, **options: Any) -> None:
        invitation, link = invite(settings.SITE_URL, email, days)
        if email:
            send_invitation(invitation, link)
            self.say(f"beat mails it to {email}")
        self.say(f"{link}\ngood until {invitation.expires_at:%Y-%m-%d %H:%M} UTC, once; it is not shown again")
        if not needs_invitation():
            self.say(f"anyone may sign up here without one: BOARD_ACCESS is {settings.BOARD_ACCESS}")
        self.answer({"link": link, "email": email or None, "expires_at": invitation.expires_at})
