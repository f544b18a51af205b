"""Decorators of pages that only some people may see."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse

from leaderboard.people.services.roles import moderates, operates

View = Callable[..., HttpResponse]


def operators_only(view: View) -> View:
    """Decorate a view for operators: others are sent to log in, or refused."""

    @wraps(view)
    def guard(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if not operates(request.user):
            raise PermissionDenied("This page is for operators of the board.")
        return view(request, *args, **kwargs)

    return login_required(guard)


def moderators_only(view: View) -> View:
    """Decorate a view for moderators: others are sent to log in, or refused."""

    @wraps(view)
    def guard(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if not moderates(request.user):
            raise PermissionDenied("This page is for moderators of the board.")
        return view(request, *args, **kwargs)

    return login_required(guard)


def require_user(request: HttpRequest) -> User:
    """The account that is logged in. Raises PermissionDenied where nobody is: views check that before."""
    if not isinstance(request.user, User):
        raise PermissionDenied("Log in first.")
    return request.user
