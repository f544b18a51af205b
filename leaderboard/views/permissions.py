"""Who may see a page."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse

from leaderboard.services.roles import moderates, operates

View = Callable[..., HttpResponse]


def operators_only(view: View) -> View:
    """Decorate a view of those who run the board: others are sent to log in, or refused."""

    @wraps(view)
    def checked(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if not operates(request.user):
            raise PermissionDenied("This page is for operators of the board.")
        return view(request, *args, **kwargs)

    return login_required(checked)


def moderators_only(view: View) -> View:
    """Decorate a view of those who decide upon submissions: others are sent to log in, or refused."""

    @wraps(view)
    def checked(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if not moderates(request.user):
            raise PermissionDenied("This page is for moderators of the board.")
        return view(request, *args, **kwargs)

    return login_required(checked)
