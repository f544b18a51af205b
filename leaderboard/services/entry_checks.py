"""Checks of an entry before it is ranked: what its tokenizer read, and whether its numbers stand out."""

import math
from dataclasses import asdict

from leaderboard.models import AuditVerb, EntryCheck, Metric, Result, Scoring, Work, not_held, ranked_now
from leaderboard.models.entry_checks import UNRANKED
from leaderboard.services.audit import record
from scoring.metrics.flags import Flag
from scoring.metrics.formulas import MEASURES, slices_in_order
from scoring.metrics.outliers import is_no_better_than_chance, stands_out

State = EntryCheck.State
LOG_PERPLEXITY = "log_perplexity_benign"


def check_entry(scoring: Scoring) -> EntryCheck | None:
    """Record the flags of a scored entry, and hold it back where the policy of its metric says so.

    What a moderator decided of the same outputs under another version holds, unless there is a new flag; what was held
    back there or refused stays so, though beside the numbers of others it may not stand out by now.
    """
    flags = find_flags(scoring)
    metric = scoring.metric_version.metric
    holds = metric.flag_policy == Metric.FlagPolicy.HOLD
    earlier_check = newest_check(scoring, metric) if holds else None
    if earlier_check is not None and earlier_check.state in UNRANKED:
        keys = {flag.key for flag in flags}
        flags += [Flag(**flag) for flag in earlier_check.flags if flag["key"] not in keys]
    if not flags:
        return None
    values = {"flags": [asdict(flag) for flag in flags], "state": State.HELD if holds else State.MARKED}
    if earlier_check is not None and {flag.key for flag in flags} <= earlier_check.flag_keys:
        values |= earlier_check.decision()
    check, _ = EntryCheck.objects.update_or_create(scoring=scoring, defaults=values)
    if check.state == State.HELD:
        detail = {
            "model": scoring.model.slug,
            "version": scoring.metric_version.number,
            "flags": sorted(check.flag_keys),
        }
        record(AuditVerb.HOLD_ENTRY_BACK, f"metric {metric.slug}", detail)
    return check


def newest_check(scoring: Scoring, metric: Metric) -> EntryCheck | None:
    """The last check of the same outputs under a version of the metric that a moderator decides, or has decided."""
    checks = EntryCheck.objects.filter(scoring__run=scoring.run, scoring__metric_version__metric=metric)
    return checks.exclude(state=State.MARKED).last()


def find_flags(scoring: Scoring) -> list[Flag]:
    """Findings for people: about the tokenizer, from the report of the run, and about the numbers beside others."""
    report = scoring.run.tokenizer_report if scoring.run else {}
    flags = [Flag(**flag) for flag in report.get("flags", [])]
    return flags + number_flags(scoring, report.get("embeddings"))


def number_flags(scoring: Scoring, embeddings: int | None) -> list[Flag]:
    """Flags of an entry's own numbers."""
    version = scoring.metric_version
    measure = MEASURES[version.metric.measure]
    own_values = {(result.measure, result.slice): result.value for result in scoring.results.all()}
    slices = slices_in_order(name for key, name in own_values if key == measure.key)
    if not slices or measure.direction is None:
        return []
    name = slices[0]
    value, surprise = own_values[measure.key, name], own_values.get((LOG_PERPLEXITY, name))
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
        others_x, others_y = [other for other, _ in pairs], [other_value for _, other_value in pairs]
        distance = stands_out(value, x, others_x, others_y, higher) if x is not None else None
        if distance is not None:
            flags.append(
                Flag(key, f"Its {measure.label} is {distance:.3f} better than models {label} let expect on this board.")
            )
    return flags


def _log(parameters: int | None) -> float | None:
    return math.log10(parameters) if parameters else None


def others_of(scoring: Scoring, measure: str, name: str) -> list[tuple[float, int | None, float | None]]:
    """Value, parameters and benign log-perplexity of the other ranked entries of the version and the population."""
    others = scoring.metric_version.scorings.filter(ranked_now("model__"), not_held(), state=Work.State.DONE)
    if scoring.metric_version.metric.formula.by_kind:
        others = others.filter(model__kind=scoring.model.kind)
    if scoring.metric_version.ranks_interfaces:
        others = others.filter(model__interface=scoring.model.interface)
    results = Result.objects.filter(
        scoring__in=others.exclude(pk=scoring.pk), slice=name, measure__in=[measure, LOG_PERPLEXITY]
    )
    values: dict[int, dict[str, float]] = {}
    sizes: dict[int, int | None] = {}
    for key, size, kind, value in results.values_list("scoring_id", "scoring__model__parameters", "measure", "value"):
        values.setdefault(key, {})[kind] = value
        sizes[key] = size
    return [
        (numbers[measure], sizes[key], numbers.get(LOG_PERPLEXITY))
        for key, numbers in values.items()
        if measure in numbers
    ]
