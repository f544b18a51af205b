"""Checking an entry before it is ranked: what its tokenizer read, and whether its numbers stand out."""

import math
from dataclasses import asdict

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from leaderboard.models import EntryCheck, Metric, MetricVersion, Result, Scoring, Work, not_held, ranked_now
from leaderboard.services.audit import record
from leaderboard.services.locks import lock_version
from leaderboard.services.publish import publish_from_database
from leaderboard.services.roles import operates
from scoring.metrics.flags import Flag
from scoring.metrics.formulas import MEASURES, slices_in_order
from scoring.metrics.outliers import is_no_better_than_chance, stands_out

State = EntryCheck.State
DECISIONS = {"release": State.RELEASED, "refuse": State.REFUSED}
LOG_PERPLEXITY = "log_perplexity_benign"
LONGEST_REASON = 2000


class CannotDecide(ValueError):
    """The decision cannot be made; the message says why."""


def check_entry(scoring: Scoring) -> EntryCheck | None:
    """Keep the flags of a scored entry, where it has any, and hold it back where its metric asks for that.

    What a moderator decided upon the same outputs under another version holds, unless there is a new flag.
    """
    flags = find_flags(scoring)
    if not flags:
        return None
    metric = scoring.metric_version.metric
    values = {"flags": [asdict(flag) for flag in flags], "state": State.MARKED}
    if metric.flag_policy == Metric.FlagPolicy.HOLD:
        before = EntryCheck.objects.filter(
            scoring__run=scoring.run, scoring__metric_version__metric=metric, decided_at__isnull=False
        ).last()
        known = before is not None and {flag.key for flag in flags} <= before.flag_keys
        values |= before.decision() if before is not None and known else {"state": State.HELD}
    check, _ = EntryCheck.objects.update_or_create(scoring=scoring, defaults=values)
    if check.state == State.HELD:
        detail = {
            "model": scoring.model.slug,
            "version": scoring.metric_version.number,
            "flags": sorted(check.flag_keys),
        }
        record("hold entry back", f"metric {metric.slug}", detail)
    return check


def find_flags(scoring: Scoring) -> list[Flag]:
    """What people should look at: of the tokenizer, as its run reports, and of the numbers beside those of others."""
    report = scoring.run.tokenizer_report if scoring.run else {}
    flags = [Flag(**flag) for flag in report.get("flags", [])]
    return flags + number_flags(scoring, report.get("embeddings"))


def number_flags(scoring: Scoring, embeddings: int | None) -> list[Flag]:
    """Flags of an entry's own numbers."""
    version = scoring.metric_version
    measure = MEASURES[version.metric.measure]
    mine = {(result.measure, result.slice): result.value for result in scoring.results.all()}
    slices = slices_in_order(name for key, name in mine if key == measure.key)
    if not slices or measure.direction is None:
        return []
    name = slices[0]
    value, surprise = mine[measure.key, name], mine.get((LOG_PERPLEXITY, name))
    flags = []
    if surprise is not None and embeddings and is_no_better_than_chance(surprise, embeddings):
        flags.append(
            Flag(
                "chance",
                f"Its log-perplexity of {surprise:.2f} nats a token is that of guessing among its {embeddings:,} "
                "tokens: its weights know nothing of texts.",
            )
        )
    rows = others_of(scoring, measure.key, name)
    higher = measure.direction == "higher"
    for key, label, x, xs in (
        ("above_its_size", "of its size", _log(scoring.model.parameters), [_log(row[1]) for row in rows]),
        ("above_its_likelihoods", "that find texts as likely", surprise, [row[2] for row in rows]),
    ):
        pairs = [(other, row[0]) for other, row in zip(xs, rows, strict=True) if other is not None]
        others_x, others_y = [other for other, _ in pairs], [known for _, known in pairs]
        distance = stands_out(value, x, others_x, others_y, higher) if x is not None else None
        if distance is not None:
            flags.append(
                Flag(key, f"Its {measure.label} is {distance:.3f} better than models {label} let expect on this board.")
            )
    return flags


def _log(parameters: int | None) -> float | None:
    return math.log10(parameters) if parameters else None


def others_of(scoring: Scoring, measure: str, name: str) -> list[tuple[float, int | None, float | None]]:
    """Of the other ranked entries of the version and the kind: value, parameters and benign log-perplexity."""
    others = scoring.metric_version.scorings.filter(ranked_now("model__"), not_held(), state=Work.State.DONE)
    if scoring.metric_version.metric.formula.by_kind:
        others = others.filter(model__kind=scoring.model.kind)
    results = Result.objects.filter(
        scoring__in=others.exclude(pk=scoring.pk), slice=name, measure__in=[measure, LOG_PERPLEXITY]
    )
    values: dict[int, dict[str, float]] = {}
    sizes: dict[int, int | None] = {}
    for key, size, kind, value in results.values_list("scoring_id", "scoring__model__parameters", "measure", "value"):
        values.setdefault(key, {})[kind] = value
        sizes[key] = size
    return [(of[measure], sizes[key], of.get(LOG_PERPLEXITY)) for key, of in values.items() if measure in of]


def decide(check: EntryCheck, decision: str, reason: str, user: User | None = None) -> None:
    """Release an entry that is held back, or refuse to, with a reason, for the record. Raises CannotDecide.

    What is released is ranked at once, where its version is the current one. Nobody releases an entry of their own but
    an operator.
    """
    if decision not in DECISIONS:
        raise CannotDecide(f"decision = {decision!r}: use one of {', '.join(DECISIONS)}")
    reason = reason.strip()
    if not reason or len(reason) > LONGEST_REASON:
        raise CannotDecide(f"reason: it has {len(reason)} characters; give 1 to {LONGEST_REASON}, the record shows it")
    if why := why_not_theirs(check, user):
        raise CannotDecide(why)
    scoring = check.scoring
    version, before = scoring.metric_version, check.state
    with transaction.atomic():
        lock_version(version.pk)
        changes = {"reason": reason, "decided_by": user, "decided_at": timezone.now()}
        if not check.move(DECISIONS[decision], **changes):
            raise CannotDecide(f"It is not held back any more: {check.get_state_display().lower()}.")
        detail = {"model": scoring.model.slug, "version": version.number, "reason": reason}
        change = {"state": before}, {"state": check.state}
        record(f"{decision} entry", f"metric {version.metric.slug}", detail, user, change)
        if check.state == State.RELEASED and version.status == MetricVersion.Status.CURRENT:
            publish_from_database(version)


def why_not_theirs(check: EntryCheck, user: User | None) -> str:
    """Why somebody may not decide; "" where they may. Nobody: at the terminal, where one may."""
    if user is None or operates(user) or not check.scoring.submissions.filter(submitter=user).exists():
        return ""
    return "This entry is your own: another moderator decides upon it."
