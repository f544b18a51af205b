"""Operators find models, and restrict, withdraw, open, hide or show them."""

from collections.abc import Callable
from dataclasses import dataclass

from django import forms
from django.core.paginator import Paginator
from django.db.models import Count, Q
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse

from leaderboard.models import AuditEvent, LanguageModel, Standing
from leaderboard.operations.forms import NoteForm, ReasonForm
from leaderboard.operations.queries.audit import describe_event
from leaderboard.services.access import hide_model, set_access
from leaderboard.views.confirmation import Question, action, ask_and_do, page
from leaderboard.views.parameters import page_number, pick, read_words

MODELS_A_PAGE = 50
LATEST = 10
HIDDEN = "hidden"
Access = LanguageModel.Access


@page
def operate_models(request: HttpRequest) -> HttpResponse:
    """List all models, also hidden ones, by words of the name (`q`) and by `access`, `page` by page."""
    search = read_words(request, "q")
    access = pick(request, "access", "", ["", *Access.values, HIDDEN])
    condition = ~Q(hidden_note="") if access == HIDDEN else Q(access=access) if access else Q()
    for word in search.split():
        condition &= Q(name__icontains=word) | Q(slug__icontains=word) | Q(family__icontains=word)
    entries = Count("scorings", filter=Q(scorings__state="done"))
    models = LanguageModel.objects.filter(condition).annotate(entries=entries).order_by("name", "pk")
    context = {
        "page": Paginator(models, MODELS_A_PAGE).get_page(page_number(request)),
        "search": search,
        "access": access,
        "accesses": [*Access.choices, (HIDDEN, "Hidden")],
    }
    return render(request, "operate/models.html", context)


@page
def operate_model(request: HttpRequest, slug: str) -> HttpResponse:
    """Show whether a model may be run, ranked and seen, the possible steps, and its latest events."""
    model = get_object_or_404(LanguageModel, slug=slug)
    events = AuditEvent.objects.filter(subject=f"model {slug}").select_related("actor")[:LATEST]
    steps = [(name, step) for name, step in STEPS.items() if step.applies(model)]
    context = {"model": model, "steps": steps, "events": [describe_event(event) for event in events]}
    return render(request, "operate/model.html", context)


@dataclass(frozen=True)
class ModelStep:
    """Something to do about a model: its button, what will happen, whether it makes sense now, the form it asks by.

    done: what the model is afterwards.
    """

    label: str
    done: str
    says: tuple[str, ...]
    applies: Callable[[LanguageModel], bool]
    form: type[forms.Form]
    take: Callable[..., bool]


def _access(access: str) -> Callable[..., bool]:
    return lambda model, values, user: set_access(model, access, values["reason"], user)


STEPS = {
    "restrict": ModelStep(
        "Mark as restricted",
        "restricted",
        ("It keeps its ranks, and nothing new is collected from it.", "Its page and the change log say why."),
        lambda model: model.access == Access.OPEN,
        ReasonForm,
        _access(Access.RESTRICTED),
    ),
    "withdraw": ModelStep(
        "Withdraw",
        "withdrawn",
        (
            "It leaves the rankings that readers see now, where ranks close up; its outputs are passed on to nobody.",
            "Earlier versions stay as they were published. Its page and the change log say why.",
        ),
        lambda model: model.access != Access.WITHDRAWN,
        ReasonForm,
        _access(Access.WITHDRAWN),
    ),
    "open": ModelStep(
        "Open again",
        "open again",
        ("It may be run and is ranked again where it has numbers.",),
        lambda model: model.access != Access.OPEN,
        ReasonForm,
        _access(Access.OPEN),
    ),
    "hide": ModelStep(
        "Hide",
        "hidden",
        (
            "No ranking, no list and no earlier version names it any more; ranks close up in what readers see now.",
            "Its page stays and says your note, nothing else. Its numbers are kept and come back with it.",
        ),
        lambda model: not model.hidden_note,
        NoteForm,
        lambda model, sent, user: hide_model(model, sent["note"], user),
    ),
    "show": ModelStep(
        "Show again",
        "shown again",
        ("Rankings and lists name it again, and its page has its numbers.",),
        lambda model: bool(model.hidden_note),
        forms.Form,
        lambda model, _sent, user: hide_model(model, "", user),
    ),
}


@action
def steer_model(request: HttpRequest, slug: str, step: str) -> HttpResponse:
    """Restrict, withdraw, open, hide or show a model."""
    model = get_object_or_404(LanguageModel, slug=slug)
    if step not in STEPS:
        raise Http404(f"step = {step!r}: use one of {', '.join(STEPS)}")
    model_step = STEPS[step]
    rankings = Standing.objects.filter(model=model, metric_version__status="current").order_by()
    boards = rankings.values("metric_version").distinct().count()
    stands = f"It stands in {boards or 'no'} current ranking{'' if boards < 2 else 's'}."
    back = reverse("operate_model", args=[slug])
    question = Question(f"{model_step.label}: {model.name}", [*model_step.says, stands], model_step.label, back)

    def do(fields: dict[str, str]) -> str:
        has_changed = model_step.take(model, fields, request.user)
        return f"{model.name} is {model_step.done}." if has_changed else f"{model.name} was {model_step.done} already."

    form = model_step.form(request.POST if request.method == "POST" else None)
    return ask_and_do(request, question, form, do)
