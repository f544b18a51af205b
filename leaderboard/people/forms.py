"""Forms of accounts: django-allauth's with our labels, and those of tokens and invitations."""

from typing import Any, ClassVar

from allauth.account import forms as account
from allauth.core import context
from allauth.socialaccount.forms import SignupForm as SocialSignupForm
from django import forms
from django.contrib.auth.hashers import make_password
from django.core.validators import RegexValidator
from django.http import HttpRequest, HttpResponse

from leaderboard.people.adapters import invitation_of
from leaderboard.people.services.invitations import DAYS, MOST_DAYS
from leaderboard.people.services.password_resets import request_reset

NAME_SHAPE = "2 to 40 Latin letters, digits, dots, hyphens and underscores"
# No @, so that a name is never taken for an e-mail address; no letters that look like others.
NAME_VALIDATORS = [RegexValidator(r"\A[A-Za-z0-9][A-Za-z0-9._-]{1,39}\Z", f"Use {NAME_SHAPE}.")]
GOOD_ENOUGH = "10 characters or more; not a common one, not like your name, not only digits."
NAME_HELP = f"{NAME_SHAPE}. It is shown beside the models you submit."


class InOurWords:
    """Labels and helps of a form of allauth's, and no placeholders: a label stays when one has begun to write."""

    labels: ClassVar[dict[str, str]] = {}
    helps: ClassVar[dict[str, str]] = {}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        fields: dict[str, forms.Field] = self.fields  # type: ignore[attr-defined]
        for name, field in fields.items():
            field.widget.attrs.pop("placeholder", None)
            field.label = self.labels.get(name, field.label)
            field.help_text = self.helps.get(name, field.help_text)


class LogInForm(InOurWords, account.LoginForm):
    labels = {"login": "Name or e-mail address"}
    helps = {"password": ""}

    def user_credentials(self) -> dict[str, str]:
        """The backend looks for an address and for a name by this one.

        Given both, it hashes the password twice where there is such an address, and how long that takes says so.
        """
        return {"username": self.cleaned_data["login"], "password": self.cleaned_data["password"]}


class Invited(InOurWords):
    """The sign-up form; some boards ask for an invitation, which may fix the address."""

    labels = {"username": "Name", "email": "E-mail address"}
    helps = {
        "username": NAME_HELP,
        "email": "We e-mail you a link to confirm it. It is never shown.",
        "password1": GOOD_ENOUGH,
    }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        invitation = invitation_of(context.request)
        self.invited = invitation.email if invitation else ""
        if self.invited:
            self.fields["email"].initial = self.invited  # type: ignore[attr-defined]

    def clean_email(self) -> str:
        email: str = super().clean_email()  # type: ignore[misc]
        if self.invited and email != self.invited:
            raise forms.ValidationError(f"Your invitation is for {self.invited}: sign up with that address.")
        return email


class SignUpForm(Invited, account.SignupForm):
    def try_save(self, request: HttpRequest) -> tuple[Any, HttpResponse | None]:
        if self.account_already_exists:
            make_password(self.cleaned_data["password1"])  # takes the time that a new account takes
        outcome: tuple[Any, HttpResponse | None] = super().try_save(request)
        return outcome


class SocialSignUpForm(Invited, SocialSignupForm):
    pass


class ResetPasswordForm(InOurWords, account.ResetPasswordForm):
    labels = {"email": "E-mail address"}

    def clean_email(self) -> str:
        """Return the address as written. A later task looks the account up, so the answer takes the same time."""
        return str(self.cleaned_data["email"]).lower()

    def save(self, request: HttpRequest, **_: Any) -> str:
        """Note the address."""
        email: str = self.cleaned_data["email"]
        request_reset(email)
        return email


class NewPasswordForm(InOurWords, account.ResetPasswordKeyForm):
    labels = {"password1": "New password", "password2": "The same again"}
    helps = {"password1": GOOD_ENOUGH}


class SetPasswordForm(InOurWords, account.SetPasswordForm):
    labels = {"password1": "Password", "password2": "The same again"}
    helps = {"password1": GOOD_ENOUGH}


class ChangePasswordForm(InOurWords, account.ChangePasswordForm):
    labels = {"oldpassword": "Current password", "password1": "New password", "password2": "The same again"}
    helps = {"oldpassword": "", "password1": GOOD_ENOUGH}


class ChangeEmailForm(InOurWords, account.AddEmailForm):
    labels = {"email": "New e-mail address"}
    helps = {"email": "It replaces your present address once you confirm it with the link that we e-mail to it."}


class TokenForm(forms.Form):
    """The name of a new API token, and its days of validity."""

    name = forms.CharField(max_length=60, label="What it is for", help_text="As in: nightly submissions.")
    days = forms.TypedChoiceField(
        label="Good for",
        coerce=int,
        empty_value=None,
        required=False,
        initial=90,
        choices=[(30, "30 days"), (90, "90 days"), (365, "A year"), ("", "Until it is revoked")],
    )


class InvitationForm(forms.Form):
    """The address of an invitation, and its days of validity."""

    email = forms.EmailField(
        required=False,
        label="E-mail address",
        help_text="We e-mail the link to this address, and it works for no other. Empty: any address.",
    )
    days = forms.IntegerField(min_value=1, max_value=MOST_DAYS, initial=DAYS, label="Days until it expires")
