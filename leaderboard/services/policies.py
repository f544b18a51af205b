"""A metric's policy: what counts as a drift of its scorer, and what becomes of entries that cannot be rescored or are
flagged."""

import math
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction

from leaderboard.models import Metric
from leaderboard.services.audit import record
from scoring.drift import Policy

DEFAULTS = asdict(Policy())
OUTDATED, FLAGGED = "outdated_policy", "flag_policy"  # beside those of the drift
CHOICES = {OUTDATED: Metric.OutdatedPolicy, FLAGGED: Metric.FlagPolicy}


class CannotSetPolicy(ValueError):
    """A value cannot be set; `field` is its name, and the message says why and what to do."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


@dataclass(frozen=True)
class PolicyField:
    """A field of a policy, for people: `whole` for counts; `optional` where no value is one, too."""

    name: str
    label: str
    help: str
    whole: bool = False
    optional: bool = False


FIELDS = (
    PolicyField(
        "threshold",
        "Label threshold",
        "A text counts as labelled where its score is above this. Empty: no labels, and so no flips.",
        optional=True,
    ),
    PolicyField("least_flips", "Least flips", "So many texts whose label flips are material, 1 or more.", whole=True),
    PolicyField("flip_share", "Share of flips", "Or this share of the texts where that is more, between 0 and 1."),
    PolicyField(
        "mean_difference",
        "Mean difference",
        "Scores that move by more than this on average are material; above 0. Of log-perplexities, 0.005 is half a "
        "percent of a perplexity.",
    ),
    PolicyField(
        "confidence",
        "Confidence",
        "Of the interval of a reported measure's change, which is to lie within the margin; between 0 and 1.",
    ),
    PolicyField(
        "alpha",
        "False alarms",
        "How likely all checks of a metric version together may be to give one false alarm; between 0 and 1.",
    ),
)
assert {of.name for of in FIELDS} == {of.name for of in fields(Policy) if of.default is not MISSING}  # noqa: S101


def fields_of(metric: Metric) -> tuple[PolicyField, ...]:
    """Those that mean something under `metric`: likelihoods have no threshold, and so no labels that flip."""
    labels = ("threshold", "least_flips", "flip_share")
    return tuple(of for of in FIELDS if metric.formula.asks_scorer or of.name not in labels)


def defaults_of(metric: Metric) -> dict[str, Any]:
    """What holds where the metric sets nothing."""
    return DEFAULTS | ({} if metric.formula.asks_scorer else {"threshold": None})


def policy_in_force(metric: Metric) -> dict[str, Any]:
    """Every field of the metric's policy, and what becomes of entries that cannot be rescored or are flagged."""
    whole = defaults_of(metric) | metric.drift_policy
    return {of.name: whole[of.name] for of in fields_of(metric)} | {name: getattr(metric, name) for name in CHOICES}


def difference(before: dict[str, Any], after: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Of two policies the fields in which they differ, each with what it has there."""
    changed = [name for name in after if before.get(name) != after[name]]
    return {name: before.get(name) for name in changed}, {name: after[name] for name in changed}


def checked(metric: Metric, changes: dict[str, Any]) -> dict[str, Any]:
    """The whole policy with `changes`. Raises CannotSetPolicy."""
    known = policy_in_force(metric)
    for name, value in changes.items():
        if name not in known:
            raise CannotSetPolicy(name, f"{name}: {metric.slug} has no such field; it has {', '.join(known)}")
        if isinstance(value, float) and not math.isfinite(value):
            raise CannotSetPolicy(name, f"{name}: {value} is not finite; give a number")
    whole = known | changes
    for name, choices in CHOICES.items():
        if whole[name] not in choices.values:
            raise CannotSetPolicy(name, f"{name}: {whole[name]!r} is none; use one of {', '.join(choices.values)}")
    try:
        Policy(**{name: value for name, value in whole.items() if name not in CHOICES})
    except ValueError as error:
        raise CannotSetPolicy(str(error).partition(":")[0], str(error)) from error
    return whole


@transaction.atomic
def set_policy(metric: Metric, changes: dict[str, Any], reason: str, user: User | None = None) -> bool:
    """Change fields of the metric's policy; says whether anything changed. Raises CannotSetPolicy.

    It holds from the next check on. Verdicts that were given stay, and so does what they set off.
    """
    if not reason.strip():
        raise CannotSetPolicy("reason", "reason: it is empty; say why, the record shows it for ever")
    metric = Metric.objects.select_for_update().get(pk=metric.pk)
    before, after = policy_in_force(metric), checked(metric, changes)
    change = difference(before, after)
    if not change[1]:
        return False
    usual = defaults_of(metric)
    own = {name: value for name, value in after.items() if name not in CHOICES and value != usual[name]}
    chosen = {name: after[name] for name in CHOICES}
    Metric.objects.filter(pk=metric.pk).update(drift_policy=own, **chosen)
    record("set drift policy", f"metric {metric.slug}", {"reason": reason}, user, change)
    return True
