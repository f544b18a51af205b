"""Accounts: sign-up, overview and API tokens. Views of django-allauth handle log-in and passwords."""

import logging
from typing import Any, cast

from allauth.account.models import EmailAddress
from allauth.account.views import SignupView
from allauth.socialaccount.models import SocialAccount
from allauth.socialaccount.providers.openid_connect import views as openid_connect
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db import IntegrityError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe
from requests import RequestException

from leaderboard.card.fields import show_refusal
from leaderboard.people.adapters import INVITATION
from leaderboard.people.forms import TokenForm
from leaderboard.people.permissions import require_user
from leaderboard.people.services.accounts import is_confirmed, may_submit
from leaderboard.people.services.invitations import find_invitation
from leaderboard.people.services.roles import role_of
from leaderboard.people.services.tokens import make_token
from leaderboard.people.services.tokens import revoke_token as revoke
from scoring.refusals import Refused

log = logging.getLogger(__name__)


class SignUp(SignupView):
    """allauth's sign-up, which also accepts the link of an invitation."""

    @method_decorator(never_cache)
    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        token = request.GET.get("invitation")
        if token is None:
            return cast(HttpResponse, super().dispatch(request, *args, **kwargs))
        invitation = find_invitation(token)
        if invitation is None:
            problem = "This invitation has been used, was withdrawn or has expired: ask for a new one."
            return render(request, "account/signup_closed.html", {"problem": problem}, status=403)
        request.session[INVITATION] = invitation.pk
        return redirect("account_signup")  # so that the secret leaves the address

    def form_valid(self, form: Any) -> HttpResponse:
        try:
            return cast(HttpResponse, super().form_valid(form))
        except IntegrityError:  # between the check of the form and now
            form.add_error("username", "This name is taken: choose another one.")
        except Refused as error:
            show_refusal(form, error)
        return cast(HttpResponse, self.form_invalid(form))


sign_up = SignUp.as_view()


def log_in_elsewhere(request: HttpRequest, provider_id: str) -> HttpResponse:
    """allauth's, which fails where the provider of log-ins is away."""
    try:
        return cast(HttpResponse, openid_connect.login(request, provider_id))
    except RequestException as error:
        log.warning("%s does not answer: %s", provider_id, type(error).__name__)
        return render(request, "socialaccount/authentication_error.html", status=502)


@require_safe
@login_required
@never_cache
def account(request: HttpRequest) -> HttpResponse:
    """Show the reader's account, and what it allows."""
    user = require_user(request)
    context = {
        "address": EmailAddress.objects.filter(user=user).order_by("-verified", "-primary").first(),
        "confirmed": is_confirmed(user),
        "may_submit": may_submit(user),
        "role": role_of(user),
        "live_tokens": user.api_tokens.live().count(),
        "elsewhere": SocialAccount.objects.filter(user=user).exists() or bool(settings.SOCIALACCOUNT_PROVIDERS),
    }
    return render(request, "account/account.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
@never_cache
def tokens(request: HttpRequest) -> HttpResponse:
    """List the reader's API tokens; on POST, make one and show its secret this once."""
    form = TokenForm(request.POST if request.method == "POST" else None)
    token, secret = None, ""
    if request.method == "POST" and form.is_valid():
        try:
            token, secret = make_token(require_user(request), form.cleaned_data["name"], form.cleaned_data["days"])
            form = TokenForm()
        except Refused as error:
            show_refusal(form, error)
    context = {"form": form, "made": token, "secret": secret, "tokens": require_user(request).api_tokens.all()[:100]}
    return render(request, "account/tokens.html", context, status=400 if form.is_bound else 200)


@require_POST
@login_required
def revoke_token(request: HttpRequest, pk: int) -> HttpResponse:
    """Revoke a token of the reader."""
    if revoke(pk, require_user(request)):
        messages.info(request, "The token is revoked: nobody can use it any more.")
    else:
        messages.error(request, "There is no such token to revoke.")
    return redirect("tokens")
