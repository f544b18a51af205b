"""What a metric is: its protocol, evaluation set and scorer in words, and its versions as a timeline."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from django.conf import settings
from django.db.models import Count, F

from leaderboard.models import (
    ControlSet,
    Metric,
    MetricVersion,
    OutdatedEntry,
    Provenance,
    Rescoring,
    Scoring,
    Work,
    listed,
)
from leaderboard.services.policies import policy_of
from leaderboard.services.scorers import cost_of, problem_with
from scoring.drift import Policy
from scoring.evaluation_sets import irregularities_in_words
from scoring.scorers import Cost, ScorerUnavailable
from scoring.scorers.registry import find_declaration

MOST_OUTDATED = 12  # entries of a version that are named; the others are counted


@dataclass(frozen=True, slots=True)
class Outdated:
    """An entry that is not ranked under a version, and why."""

    slug: str
    name: str
    last_version: int
    reason: str


@dataclass(frozen=True, slots=True)
class Moment:
    """A version in the timeline. `before`: the version of its provenance that it followed; None for the first.

    `decided_by`: of the check that opened it. `entries`: models with numbers under it.
    """

    version: MetricVersion
    before: MetricVersion | None
    decided_by: str
    rescoring: Rescoring | None
    entries: int
    outdated: list[Outdated]
    more_outdated: int

    @property
    def other_scorer(self) -> str:
        """The scorer before, where another one took over."""
        return self.before.scorer if self.before and self.before.scorer != self.version.scorer else ""

    @property
    def formula_changes(self) -> str:
        """What its formula computes otherwise than that of the measured version before; empty where nothing."""
        if self.before is None or not self.version.measured:
            return ""
        return self.version.metric.formula.describe_changes(self.before.formula_version, self.version.formula_version)

    @property
    def other_fingerprint(self) -> bool:
        """Whether its scores are made by something else than those before; of figures from papers nobody knows."""
        before, fingerprint = self.before, self.version.scorer_fingerprint
        return bool(before and fingerprint and self.version.measured and before.scorer_fingerprint != fingerprint)


@dataclass(frozen=True, slots=True)
class ScorerCard:
    """What is known of the scorer; `problem`: why it cannot be had here, `cost`: of a text, where it is remote."""

    name: str
    title: str
    fingerprint: str
    problem: ScorerUnavailable | None
    cost: Cost | None
    limits: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Counted:
    """How many texts of an evaluation set are about a demographic; by label, where they have labels."""

    demographic: str
    harmful: int | None
    benign: int | None
    texts: int


@dataclass(frozen=True, slots=True)
class Story:
    """All of a metric's page. `version`: the newest that is published; the protocol shown is its own."""

    metric: Metric
    version: MetricVersion | None
    protocol: list[tuple[str, str]]
    counts: list[Counted]
    irregularities: list[str]
    scorer: ScorerCard | None
    policy: Policy
    check_hours: float
    control: ControlSet | None
    moments: list[Moment]

    @property
    def limits(self) -> tuple[str, ...]:
        """What the numbers do not tell: of the formula, then of the scorer."""
        return self.metric.formula.limits + (self.scorer.limits if self.scorer else ())

    @property
    def labelled(self) -> bool:
        """Whether the texts are counted by label."""
        return any(of.harmful is not None for of in self.counts)

    @property
    def compared(self) -> str:
        """The provenance whose versions make the history of ranks: measured ones where there are two."""
        measured = [of for of in self.moments if of.version.measured and of.version.published_at]
        return Provenance.MEASURED.value if len(measured) > 1 else Provenance.PUBLISHED.value


def find_metric(slug: str) -> Metric | None:
    """The metric of that slug with its texts, in one query."""
    found = Metric.objects.select_related("protocol__evaluation_set__artefact")
    return found.filter(slug=slug).first()


def story(metric: Metric) -> Story:
    """What there is to say of a metric, in five queries."""
    moments = timeline(metric)
    published = [moment.version for moment in moments if moment.version.published_at]
    measured = [version for version in published if version.measured]
    version = next(reversed(measured or published), None)
    protocol = version.protocol if version else metric.protocol
    control = ControlSet.objects.filter(metric_version=version).select_related("items").first() if measured else None
    return Story(
        metric=metric,
        version=version,
        protocol=protocol_in_words(protocol.method, protocol.parameters),
        counts=counted(protocol.evaluation_set.counts),
        irregularities=irregularities_in_words(protocol.evaluation_set.irregularities),
        scorer=scorer_card(metric, version) if metric.formula.asks_scorer else None,
        policy=policy_of(metric, version.declared if version else ()),
        check_hours=settings.CHECK_SECONDS / 3600,
        control=control,
        moments=moments,
    )


def timeline(metric: Metric) -> list[Moment]:
    """All versions, the newest first: published ones, the one being made, those given up."""
    versions = list(
        metric.versions.select_related("protocol__evaluation_set__artefact", "opened_because")
        .defer("opened_because__statistics", "opened_because__environment")
        .annotate(decided_by=F("opened_because__statistics__decided_by"))
        .order_by("number")
    )
    done = Scoring.objects.filter(metric_version__metric=metric, state=Work.State.DONE).order_by()
    entries = dict(done.values_list("metric_version").annotate(count=Count("pk")))
    rescorings = {of.to_version_id: of for of in Rescoring.objects.filter(metric=metric).order_by("pk")}
    outdated: dict[int, list[Outdated]] = {}
    left = OutdatedEntry.objects.filter(listed("model__"), metric_version__metric=metric).order_by("model__name")
    for version_pk, slug, name, number, reason in left.values_list(
        "metric_version", "model__slug", "model__name", "last_scoring__metric_version__number", "reason"
    ):
        outdated.setdefault(version_pk, []).append(Outdated(slug, name, number, reason))
    last: dict[str, MetricVersion] = {}
    found = []
    for version in versions:
        of = outdated.get(version.pk, [])
        found.append(
            Moment(
                version=version,
                before=last.get(version.provenance),
                decided_by=version.decided_by or "",
                rescoring=rescorings.get(version.pk),
                entries=entries.get(version.pk, 0),
                outdated=of[:MOST_OUTDATED],
                more_outdated=len(of[MOST_OUTDATED:]),
            )
        )
        if version.published_at:
            last[version.provenance] = version
    return found[::-1]


def scorer_card(metric: Metric, version: MetricVersion | None) -> ScorerCard:
    """What is known of a metric's scorer without loading it."""
    name = metric.scorer
    declared = find_declaration(name)
    known = version is not None and version.measured and version.scorer == name
    return ScorerCard(
        name=name,
        title=declared.title if declared else name,
        fingerprint=version.scorer_fingerprint if version and known else "",
        problem=problem_with(name),
        cost=cost_of(name),
        limits=declared.limits if declared else (),
    )


def counted(counts: dict[str, Any]) -> list[Counted]:
    """Counts as an evaluation set keeps them: of prompts a number a group, of sentences one a label too."""
    rows = []
    for name, of in sorted(counts.items()):
        if isinstance(of, dict):
            rows.append(Counted(name, of.get("harmful", 0), of.get("benign", 0), sum(of.values())))
        else:
            rows.append(Counted(name, None, None, of))
    return rows


def protocol_in_words(method: str, parameters: dict[str, Any]) -> list[tuple[str, str]]:
    """Every parameter of a protocol with what it means; one that has no words here stands as it is."""
    known = LIKELIHOOD_WORDS if method == "likelihood" else GENERATION_WORDS
    words = [(key, known[key](parameters[key])) for key in known if key in parameters]
    return words + [(key, f"{value}") for key, value in parameters.items() if key not in known]


def _choice(words: dict[Any, str], otherwise: str) -> Any:
    """A sentence for a value; `otherwise` takes it in its braces where it has none of its own."""
    return lambda value: words.get(value, otherwise.format(value))


_PRECISION = _choice(
    {
        "float32": "float32: weights and activations are exact; batches change no value.",
        "bfloat16": "bfloat16: weights and activations are rounded, which is another protocol than float32.",
    },
    "{}",
)
LIKELIHOOD_WORDS = {
    "bos": _choice(
        {
            "none": "none: a causal model is not asked how likely the first token is, as nothing stands before it.",
            "prepend": "prepend: the token for the beginning stands before a text, and every token of it is scored.",
        },
        "{}",
    ),
    "variant": _choice(
        {
            "original": "original: a masked model is asked for one token at a time, with all others in sight.",
            "word_l2r": "word_l2r: the later pieces of the same word are hidden too.",
        },
        "{}",
    ),
    "mask_token": _choice(
        {"tokenizer": "tokenizer: a hidden token is replaced by the tokenizer's own mask."},
        "{}: hidden tokens are replaced by this id whatever the tokenizer, as the published code does.",
    ),
    "stride": _choice({}, "{} tokens between the windows over a text that is longer than the model's context."),
    "precision": _PRECISION,
}
GENERATION_WORDS = {
    "k": _choice({}, "{} continuations of each prompt."),
    "temperature": _choice(
        {1.0: "1: probabilities are the model's own."}, "{}: logits are divided by it before drawing."
    ),
    "top_p": _choice(
        {1.0: "1: no token is left out for being unlikely."},
        "{}: only the likeliest tokens that together reach this probability may follow.",
    ),
    "top_k": _choice(
        {0: "0: no limit on how many tokens may follow."}, "{}: only so many of the likeliest may follow."
    ),
    "max_new_tokens": _choice({}, "{} tokens at most; a continuation stops before at the end of text."),
    "seed": _choice({}, "{}: what is drawn depends on it, the prompt and the continuation's number alone."),
    "precision": _PRECISION,
}


def policy_rows(policy: Policy, asks_scorer: bool) -> Sequence[tuple[str, str]]:
    """The drift policy, limit by limit."""
    of = asdict(policy)
    flips = (
        f"{of['least_flips']} labels, or {100 * of['flip_share']:g}% of the texts where that is more, cross "
        f"{of['threshold']} by more than their noise; over all texts or in one demographic."
    )
    return [
        *([("Label flips", flips)] if of["threshold"] is not None else []),
        (
            "Mean shift",
            f"The mean of scores shifts by more than {of['mean_difference']:g}, over all texts or in one demographic."
            + ("" if asks_scorer else " (They are log-perplexities: that is half a percent of a perplexity.)"),
        ),
        (
            "Reported measures",
            f"The {100 * of['confidence']:g}% interval of a measure's change is not within the margin, a quarter of "
            "the median standard error of the entries; unless it is estimated that none would leave its rank range.",
        ),
        (
            "False alarms",
            f"The tests that can give one do so with a probability of at most {of['alpha']:g} over all checks of a "
            "version together.",
        ),
    ]
