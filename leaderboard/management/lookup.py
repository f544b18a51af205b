"""Things by the names that people type."""

from argparse import ArgumentTypeError
from datetime import date

from django.contrib.auth.models import User
from django.core.management.base import CommandError
from django.db.models import Q

from leaderboard.models import LanguageModel, Metric, ModelIdentity, Run, Scoring
from leaderboard.operations.queries.work import STEERED
from leaderboard.rankings.days import parse_day


def metric_called(slug: str) -> Metric:
    """The metric of that slug. Raises CommandError, with those there are."""
    metric = Metric.objects.select_related("protocol__evaluation_set").filter(slug=slug).first()
    if metric is None:
        slugs = ", ".join(Metric.objects.values_list("slug", flat=True)) or "none: run `manage.py seed`"
        raise CommandError(f"there is no metric {slug!r}; known: {slugs}")
    return metric


def model_called(slug: str) -> LanguageModel:
    """The language model of that slug. Raises CommandError, with what to do."""
    model = LanguageModel.objects.filter(slug=slug).first()
    if model is None:
        raise CommandError(f"there is no model {slug!r}: enter it with `manage.py add_model REF`")
    return model


def identity_called(slug: str) -> ModelIdentity:
    """The model that entries are evidence about, by its slug or that of an entry. Raises CommandError."""
    identity = ModelIdentity.objects.filter(Q(slug=slug) | Q(entries__slug=slug)).first()
    if identity is None:
        raise CommandError(f"no model and no entry of one is called {slug!r}: /models/ lists them with their slugs")
    return identity


def user_called(name: str) -> User:
    """The user of that name or e-mail address. Raises CommandError, with what to do."""
    users = User.objects.filter(Q(username=name) | Q(email__iexact=name))
    if len(users) != 1:
        how_many = "several users have" if users else "there is no user with"
        raise CommandError(f"{how_many} the name or e-mail address {name!r}: names are shown at /accounts/")
    return users[0]


def work_called(kind: str, pk: int) -> Run | Scoring:
    """The run or the scoring of that number. Raises CommandError, with what to do."""
    work = STEERED[kind].objects.filter(pk=pk).first()
    if work is None:
        raise CommandError(f"there is no {STEERED[kind].kind.one} {pk}: `manage.py work {kind}` lists them")
    return work


def day_called(text: str) -> date:
    """The day that an argument names, as `type` of an argparse argument."""
    try:
        return parse_day(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from error
