"""How this board uses django-allauth: who may sign up, what a newcomer gets, and who need not confirm an address."""

from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.stages import EmailVerificationStage
from allauth.core import context as current
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from django.contrib.auth.models import User
from django.contrib.sites.shortcuts import get_current_site
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from leaderboard.models import Invitation
from leaderboard.people.services.accounts import needs_invitation
from leaderboard.people.services.invitations import use_invitation
from leaderboard.people.services.roles import NEWCOMER, set_role
from leaderboard.services.outbox import post
from scoring.refusals import Refused

INVITATION = "invitation"  # in the session, which the server keeps: the invitation somebody came with
WRONG_LOG_IN = "There is no account with this name or e-mail address and this password."
CONFIRMATION = "allauth.account.stages.EmailVerificationStage"


class AccountAdapter(DefaultAccountAdapter):
    """Sign-up by form, and all mail of allauth."""

    error_messages = {
        **DefaultAccountAdapter.error_messages,
        "username_password_mismatch": WRONG_LOG_IN,
        "email_password_mismatch": WRONG_LOG_IN,
        "too_many_login_attempts": "Too many attempts to log in. Wait a few minutes, or reset your password.",
        "username_taken": "This name is taken: choose another one.",
    }

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return not needs_invitation() or invitation_of(request) is not None

    def save_user(self, request: HttpRequest, user: User, form: Any, commit: bool = True) -> User:
        with transaction.atomic():
            user = super().save_user(request, user, form, commit)
            if commit:
                welcome(request, user)
        return user

    def get_login_stages(self) -> list[str]:
        return [
            f"{__name__}.ConfirmationStage" if stage == CONFIRMATION else stage for stage in super().get_login_stages()
        ]

    def get_password_change_redirect_url(self, request: HttpRequest) -> str:
        return str(self.get_login_redirect_url(request))

    def send_mail(self, template_prefix: str, email: str, context: dict[str, Any]) -> None:
        """Queue the letter: the page takes the same time with and without an account or a mail server."""
        site = {"request": current.request, "email": email, "current_site": get_current_site(current.request)}
        message = self.render_mail(template_prefix, email, site | context)
        post(email, str(message.subject), str(message.body))


class SocialAccountAdapter(DefaultSocialAccountAdapter):
    """Sign-up through another provider."""

    def save_user(self, request: HttpRequest, sociallogin: Any, form: Any = None) -> User:
        try:
            with transaction.atomic():
                user: User = super().save_user(request, sociallogin, form)
                if form is None:  # else the other adapter has done it
                    welcome(request, user)
        except Refused as error:
            raise ImmediateHttpResponse(render_refusal(request, error)) from error
        return user


class ConfirmationStage(EmailVerificationStage):
    """Everybody confirms an e-mail address before the first log-in, except staff from `createsuperuser`."""

    def handle(self) -> tuple[HttpResponse | None, bool]:
        user = self.login.user
        if user is not None and user.is_staff:
            return None, True
        outcome: tuple[HttpResponse | None, bool] = super().handle()
        return outcome


def invitation_of(request: HttpRequest) -> Invitation | None:
    """Return the valid invitation that the visitor came with; else None."""
    pk = request.session.get(INVITATION)
    return Invitation.objects.open().filter(pk=pk).first() if pk else None


def welcome(request: HttpRequest, user: User) -> None:
    """Give a newcomer their role; in the transaction that makes the user. Raises Refused."""
    if needs_invitation():
        use_invitation(request.session.get(INVITATION, 0), user)
    set_role(user, NEWCOMER, user)


def render_refusal(request: HttpRequest, error: Refused) -> HttpResponse:
    """Render the page that says why the visitor cannot sign up."""
    return render(request, "account/signup_closed.html", {"problem": str(error)}, status=403)
