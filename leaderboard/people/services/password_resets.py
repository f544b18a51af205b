"""Letters that reset a password. The page only notes the address; whether it has an account is looked up in beat.

So the answer takes as long for addresses with an account as for those without, and the link, which lets one in, stands
in the letter alone.
"""

from urllib.parse import urlsplit

from allauth.account.adapter import get_adapter
from allauth.account.forms import default_token_generator
from allauth.account.internal.userkit import filter_users_by_email
from allauth.account.utils import user_pk_to_url_str
from django.conf import settings
from django.core.mail import EmailMessage
from django.urls import reverse

from leaderboard.models import OutboxMessage
from leaderboard.services.outbox import Sender

FOR_USERS, FOR_NOBODY = "account/email/password_reset_key", "account/email/unknown_account"


def request_reset(email: str) -> None:
    """Note that somebody forgot the password of the account with this address, if there is one."""
    OutboxMessage.objects.create(kind=OutboxMessage.Kind.RESET, recipient=email)


def send_resets(message: OutboxMessage) -> bool:
    """Write and send the letters to the address of somebody who forgot a password. Raises OSError, SMTPException."""
    return bool(sum(letter.send() for letter in write_resets(message.recipient)))


RESETS = Sender(OutboxMessage.Kind.RESET, send_resets, is_secret=True)


def write_resets(email: str) -> list[EmailMessage]:
    """The letters to an address: a link for each account that has it, or that there is none."""
    adapter = get_adapter()
    common = {"email": email, "current_site": {"domain": urlsplit(settings.SITE_URL).netloc}}
    users = filter_users_by_email(email, is_active=True, prefer_verified=True, for_login=True)
    if not users:
        context = common | {"signup_url": f"{settings.SITE_URL}{reverse('account_signup')}"}
        return [adapter.render_mail(FOR_NOBODY, email, context)]
    letters = []
    for user in users:
        key = [user_pk_to_url_str(user), default_token_generator.make_token(user)]
        link = f"{settings.SITE_URL}{reverse('account_reset_password_from_key', args=key)}"
        context = common | {"user": user, "username": user.get_username(), "password_reset_url": link}
        letters.append(adapter.render_mail(FOR_USERS, email, context))
    return letters
