"""Operators compare a metric's scorer with a successor, and let it take over."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse

from leaderboard.models import Metric, Succession
from leaderboard.operations.forms import ReasonForm, SuccessorForm
from leaderboard.people.permissions import require_user
from leaderboard.queries.succession_words import describe_cost
from leaderboard.services.succession import begin_succession, estimate_cost, request_succession
from leaderboard.views.confirmation import Question, action, ask_and_do
from scoring.refusals import Refused


@action
def compare_successor(request: HttpRequest, slug: str) -> HttpResponse:
    """Queue the comparison of a metric's scorer with a successor."""
    metric = get_object_or_404(Metric, slug=slug)
    question = Question(
        f"Compare the scorer of {metric.title} with a successor",
        [
            f"A worker has the successor score the prompts that {metric.scorer} has scored, unless it has scored them, "
            "and compares both on all texts that they share.",
            "It changes no ranking: letting the successor take over is another step, after the verdict.",
        ],
        "Compare",
        reverse("succession", args=[slug]),
    )

    def do(values: dict[str, str]) -> str:
        succession = request_succession(metric, values["successor"].strip(), user=require_user(request))
        return f"{succession.scorer} is being compared with {succession.successor}."

    return ask_and_do(request, question, SuccessorForm(request.POST if request.method == "POST" else None), do)


@action
def begin(request: HttpRequest, pk: int) -> HttpResponse:
    """Let a successor take over, once it has been compared."""
    succession = get_object_or_404(Succession.objects.select_related("metric"), pk=pk)
    metric, successor = succession.metric, succession.successor
    try:
        cost = describe_cost(estimate_cost(succession))
    except Refused as error:
        cost = f"It cannot be done now: {error}."
    question = Question(
        f"Let {successor} take over {metric.title}",
        [
            cost,
            f"Its numbers come as a new version, published when it is whole; until then readers see that of "
            f"{succession.scorer}, and afterwards it stays readable as it is.",
            "Numbers of the two versions are different quantities and never stand in one ranking.",
        ],
        f"Let {successor} take over",
        reverse("succession", args=[metric.slug]),
    )

    def do(values: dict[str, str]) -> str:
        rescoring = begin_succession(succession, values["reason"], require_user(request))
        return f"{rescoring.total} entries of {metric.title} are being scored by {successor}."

    return ask_and_do(request, question, ReasonForm(request.POST if request.method == "POST" else None), do)
