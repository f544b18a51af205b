"""A metric's policy: what counts as a drift of its scorer, and which of its entries are ranked."""

import math
from collections.abc import Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction

from leaderboard.models import AuditVerb, Metric
from leaderboard.models.metrics import USUAL_BRAKE, USUAL_MOST_MISSING
from leaderboard.services.audit import record
from leaderboard.services.locks import lock_metric
from leaderboard.services.publish import publish_from_database
from scoring.attributes import Attribute, harms_of
from scoring.drift import Policy
from scoring.refusals import Refused

DEFAULTS = asdict(Policy())
OUTDATED, FLAGGED = "outdated_policy", "flag_policy"  # beside those of the drift
CHOICES = {OUTDATED: Metric.OutdatedPolicy, FLAGGED: Metric.FlagPolicy}


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
        "Mean shift",
        "A mean of scores that shifts by more than this is material; above 0. Of log-perplexities, 0.005 is half a "
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
MOST_MISSING = PolicyField(
    "most_missing",
    "Missing texts",
    "An entry of which a larger share of the texts has no score is shown and not ranked, between 0 and 1.",
)
BRAKE = PolicyField(
    "brake_after",
    "Brake",
    "With so many drifts within a day nothing is scored again by itself, and an operator is called; 0: always scored.",
    whole=True,
)
OF_RANKING = (OUTDATED, FLAGGED, MOST_MISSING.name, BRAKE.name)  # the other fields are those of a drift policy
assert {row.name for row in FIELDS} == {row.name for row in fields(Policy) if row.default is not MISSING}  # noqa: S101


def fields_of(metric: Metric) -> tuple[PolicyField, ...]:
    """The fields that apply to `metric`: likelihoods have no threshold, and so no labels that flip."""
    labels = ("threshold", "least_flips", "flip_share")
    return (*(row for row in FIELDS if metric.formula.labels or row.name not in labels), MOST_MISSING, BRAKE)


def defaults_of(metric: Metric) -> dict[str, Any]:
    """The defaults of the metric's policy."""
    usual = DEFAULTS | {MOST_MISSING.name: USUAL_MOST_MISSING, BRAKE.name: USUAL_BRAKE}
    return usual | ({} if metric.formula.labels else {"threshold": None})


def policy_in_force(metric: Metric) -> dict[str, Any]:
    """Every field of the metric's policy, and what becomes of entries that cannot be rescored or are flagged."""
    whole = (
        defaults_of(metric)
        | metric.drift_policy
        | {
            MOST_MISSING.name: metric.most_missing,
            BRAKE.name: metric.brake_after,
        }
    )
    return {row.name: whole[row.name] for row in fields_of(metric)} | {name: getattr(metric, name) for name in CHOICES}


def difference(old_policy: dict[str, Any], new_policy: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The fields in which two policies differ, with the values of each."""
    names = [name for name in new_policy if old_policy.get(name) != new_policy[name]]
    return {name: old_policy.get(name) for name in names}, {name: new_policy[name] for name in names}


def complete_policy(metric: Metric, changes: dict[str, Any]) -> dict[str, Any]:
    """The whole policy with `changes`. Raises Refused."""
    current_policy = policy_in_force(metric)
    for name, value in changes.items():
        if name not in current_policy:
            raise Refused.of_field(name, f"{metric.slug} has no such field; it has {', '.join(current_policy)}")
        if isinstance(value, float) and not math.isfinite(value):
            raise Refused.of_field(name, f"{value} is not finite; give a number")
    new_policy = current_policy | changes
    for name, choices in CHOICES.items():
        if new_policy[name] not in choices.values:
            raise Refused.of_field(name, f"{new_policy[name]!r} is none; use one of {', '.join(choices.values)}")
    if not 0 <= new_policy[MOST_MISSING.name] <= 1:
        problem = f"{new_policy[MOST_MISSING.name]} is not a share; use a number from 0 to 1, as 0.05"
        raise Refused.of_field(MOST_MISSING.name, problem)
    if new_policy[BRAKE.name] < 0:
        raise Refused.of_field(BRAKE.name, f"{new_policy[BRAKE.name]} is below 0; use 0 or more, as 2")
    Policy(**{name: value for name, value in new_policy.items() if name not in OF_RANKING})
    return new_policy


def policy_of(metric: Metric, attributes: Sequence[Attribute] = ()) -> Policy:
    """The limits of the metric, where it sets some; likelihoods have no threshold, and so no labels.

    The threshold is else that of the first harm that the scorer declares, if any; see `thresholds_of` for the others.
    """
    defaults = {name: value for name, value in defaults_of(metric).items() if name not in OF_RANKING}
    harms = harms_of(attributes)
    if harms:
        defaults |= {"threshold": attributes[harms[0]].threshold}
    return Policy(**(defaults | metric.drift_policy))


def thresholds_of(metric: Metric, attributes: Sequence[Attribute]) -> dict[str, float]:
    """The threshold of labels of each attribute that a scorer declares, unless the metric sets one for all."""
    if "threshold" in metric.drift_policy:
        return {}
    return {attribute.name: attribute.threshold for attribute in attributes}


@transaction.atomic
def set_policy(metric: Metric, changes: dict[str, Any], reason: str, user: User | None = None) -> bool:
    """Change fields of the metric's policy; returns whether anything changed. Raises Refused.

    The limits of a drift hold from the next check on: earlier verdicts and their consequences stay. The rules of
    ranking hold at once: the current ranking is published again.
    """
    if not reason.strip():
        raise Refused.of_field("reason", "it is empty; say why, the record shows it for ever")
    metric = lock_metric(metric.pk)
    old_policy, new_policy = policy_in_force(metric), complete_policy(metric, changes)
    change = difference(old_policy, new_policy)
    if not change[1]:
        return False
    usual = defaults_of(metric)
    own = {name: value for name, value in new_policy.items() if name not in OF_RANKING and value != usual[name]}
    of_ranking = {name: new_policy[name] for name in OF_RANKING}
    Metric.objects.filter(pk=metric.pk).update(drift_policy=own, **of_ranking)
    record(AuditVerb.SET_DRIFT_POLICY, f"metric {metric.slug}", {"reason": reason}, user, change)
    current = metric.current_version()
    if current and MOST_MISSING.name in change[1]:
        publish_from_database(current)
    return True
