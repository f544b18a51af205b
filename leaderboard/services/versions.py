"""Metric versions: everything that fixes a metric's numbers, as one fingerprint."""

from collections.abc import Iterable, Sequence

from django.db.models import Max

from leaderboard.models import ControlCheck, Metric, MetricVersion, Protocol, Provenance, Rescoring, Run, Work
from leaderboard.services.leases import ScorerChanged
from scoring.attributes import Attribute

UNFINISHED = (Work.State.QUEUED, Work.State.RUNNING)


def next_number(metric: Metric) -> int:
    """The number of the metric's next version: published and measured versions are counted together from 1."""
    return (metric.versions.aggregate(last=Max("number"))["last"] or 0) + 1


def next_epoch(protocol: Protocol) -> int:
    """The epoch of outputs to collect again: none are there yet.

    No version has outputs of that epoch, not even a cancelled one, and no run that collected a lost file again.
    """
    versions, runs = (rows.aggregate(last=Max("epoch"))["last"] for rows in (protocol.metric_versions, protocol.runs))
    return max(versions or 0, runs or 0) + 1


def find_rescoring(metric: Metric) -> Rescoring | None:
    """The rescoring of `metric` that is under way, with its new version; the database allows one."""
    return Rescoring.objects.active().filter(metric=metric).select_related("to_version").first()


def newest_version(metric: Metric) -> MetricVersion | None:
    """The version that new models land in: the one that a rescoring under way leads to, else the current one."""
    active = find_rescoring(metric)
    return active.to_version if active else metric.current_version()


def hold_work(rescoring: Rescoring) -> None:
    """Have the unfinished work of a rescoring wait where it is paused, and go on where it is not."""
    version, is_paused = rescoring.to_version, rescoring.state == Rescoring.State.PAUSED
    version.scorings.unfinished().filter(held=not is_paused).update(held=is_paused)
    if version.epoch != rescoring.from_version.epoch:  # else runs may be for other metrics too
        runs = Run.objects.filter(scorings__metric_version=version).unfinished()
        runs.filter(held=not is_paused).update(held=is_paused)


def hold_paused_work(versions: Iterable[MetricVersion]) -> None:
    """Have work that was just queued under the versions wait where their rescoring is paused.

    With their metrics locked, or a rescoring might be paused meanwhile.
    """
    for rescoring in Rescoring.objects.filter(state=Rescoring.State.PAUSED, to_version__in=versions):
        hold_work(rescoring)


def open_first_version(metric: Metric) -> MetricVersion:
    """The first measured version of `metric`; it becomes current when its first standings are published.

    Returns the candidate that is already open where there is one, unless the formula is another by now; bound to no
    scorer where every scoring under it failed. A version whose texts a scorer judges is bound to
    that scorer at its first scoring; one of likelihoods has no scorer but its formula.
    """
    formula = metric.formula
    scorer_fingerprint = formula.own_fingerprint(metric.scorer, 1)
    open_already = metric.versions.filter(
        status=MetricVersion.Status.CANDIDATE, provenance=Provenance.MEASURED, formula_version=formula.version
    ).first()
    if open_already:
        if not open_already.scorings.filter(state__in=[*UNFINISHED, Work.State.DONE]).exists():
            open_already.scorer_fingerprint, open_already.prompt_scores, open_already.attributes = (
                scorer_fingerprint,
                None,
                [],
            )
            open_already.save(update_fields=["scorer_fingerprint", "prompt_scores", "attributes"])
        return open_already
    return MetricVersion.objects.create(
        metric=metric,
        number=next_number(metric),
        protocol=metric.protocol,
        scorer=metric.scorer,
        scorer_fingerprint=scorer_fingerprint,
        formula_version=formula.version,
    )


def bind_anew(version: MetricVersion, scorer_fingerprint: str) -> None:
    """Make the scorer of this fingerprint the version's own where nothing is scored under it yet; else as `bind`."""
    is_candidate = version.status == MetricVersion.Status.CANDIDATE
    if is_candidate and not version.scorings.filter(state=Work.State.DONE).exists():
        if version.scorer_fingerprint != scorer_fingerprint:  # prompts that were scored, were scored by another one
            version.scorer_fingerprint, version.prompt_scores, version.attributes = scorer_fingerprint, None, []
            version.save(update_fields=["scorer_fingerprint", "prompt_scores", "attributes"])
        return
    bind(version, scorer_fingerprint)


def bind(version: MetricVersion, scorer_fingerprint: str) -> None:
    """Make the scorer of this fingerprint the version's own, if it has none; raise ScorerChanged where it has another.

    Numbers of two scorers never stand in one ranking, even where the scorer bears the same name. A scorer whose
    fingerprint changed (of a library's version, say) still counts as the same where a control check found that its
    scores did not drift.
    """
    MetricVersion.objects.filter(pk=version.pk, scorer_fingerprint="").update(scorer_fingerprint=scorer_fingerprint)
    version.refresh_from_db()
    checks = ControlCheck.objects.filter(
        control_set__metric_version=version,
        fingerprint=scorer_fingerprint,
        verdict__in=[ControlCheck.Verdict.STABLE, ControlCheck.Verdict.CHANGED],
    )
    if version.scorer_fingerprint != scorer_fingerprint and not checks.exists():
        raise ScorerChanged(
            f"the scorer {version.scorer} is not the one of {version} any more (it was "
            f"{version.scorer_fingerprint[:12]}, now it is {scorer_fingerprint[:12]}): nothing is scored with it under "
            "this version"
        )


def keep_chat_protocol(version: MetricVersion, protocol: Protocol) -> None:
    """Make `protocol` the version's own for chat entries, if it has none yet.

    Raises ScorerChanged where it has another: outputs of two protocols never stand in one ranking.
    """
    MetricVersion.objects.filter(pk=version.pk, chat_protocol=None).update(chat_protocol=protocol)
    version.refresh_from_db()
    if version.chat_protocol_id != protocol.pk:
        raise ScorerChanged(
            f"{version} collects answers of chats by another protocol: evaluate the model again, under the protocol of "
            "now"
        )


def keep_attributes(version: MetricVersion, attributes: Sequence[Attribute]) -> None:
    """Make what the scorer declares of its attributes the version's own, if it has none yet.

    Raises ScorerChanged where it has another declaration: its numbers and ranks follow from that one.
    """
    declarations = [attribute.as_json() for attribute in attributes]
    MetricVersion.objects.filter(pk=version.pk, attributes=[]).update(attributes=declarations)
    version.refresh_from_db()
    if version.attributes != declarations:
        raise ScorerChanged(
            f"the scorer {version.scorer} declares its attributes differently from {version}: rescore the metric, "
            "with that as the reason"
        )
