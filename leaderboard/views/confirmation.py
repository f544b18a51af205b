"""Every action of operators asks once: a page that says what will happen, and a form that does it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from leaderboard.people.permissions import View, operators_only
from scoring.refusals import Refused


@dataclass(frozen=True)
class Question:
    """title: the action; says: what will happen, sentence by sentence; button: what does it; back: where it leads."""

    title: str
    says: Sequence[str]
    button: str
    back: str


def page(view: View) -> View:
    """Decorate a page of operators: it shows the board as it is now, and changes nothing."""
    return require_safe(operators_only(never_cache(view)))


def action(view: View) -> View:
    """Decorate an action of operators: GET asks, POST does."""
    return require_http_methods(["GET", "HEAD", "POST"])(operators_only(never_cache(view)))


def ask(request: HttpRequest, question: Question, form: forms.Form | None = None, problem: str = "") -> HttpResponse:
    """The page that asks; 400 where what was sent cannot be done."""
    is_refused = bool(problem) or bool(form and form.is_bound and form.errors)
    context = {"question": question, "form": form, "problem": problem}
    return render(request, "operate/ask.html", context, status=400 if is_refused else 200)


def ask_and_do(
    request: HttpRequest, question: Question, form: forms.Form | None, do: Callable[[dict[str, str]], str]
) -> HttpResponse:
    """Ask; once it is confirmed `do` it with what the form says, go back, and say there what `do` says.

    `do` raises Refused where it cannot be done, which says why.
    """
    if request.method != "POST" or (form and not form.is_valid()):
        return ask(request, question, form)
    try:
        messages.info(request, do(form.cleaned_data if form else {}))
    except Refused as error:
        return ask(request, question, form, str(error))
    return redirect(question.back)
