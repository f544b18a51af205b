"""The three scenarios of Pozzobon et al. 2023, of one metric, on the same models.

Scores as first published, generations rescored, and generations and prompts rescored: views of the same outputs.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from leaderboard.models import Metric, MetricVersion
from leaderboard.rankings import populations
from leaderboard.rankings.changes import BoardKey, Side, compare_sides, describe_side, label_models, read_sides
from leaderboard.rankings.slices import rankings_of
from leaderboard.rankings.versions import NoRanking, published_versions
from leaderboard.services import artefacts
from leaderboard.services.published import rows
from scoring.attributes import THRESHOLD, is_above
from scoring.metrics.formulas import attributes_of, published_toxicity, slice_parts, slices_in_order, values_of
from scoring.metrics.safety import ALL
from scoring.metrics.toxicity import PARTS, RESCORED, TOXIC
from scoring.statistics.rank_changes import RankChanges

HELM_METRIC = "rtp-helm-perspective"  # whose figures are those of the paper, as are its prompts and Figure 4
METHOD_MEASURES = {  # of Figure 4's file, by the keys of measures
    "expected_max_toxicity": "expected_max_toxicity",
    "toxicity_probability": "toxicity_probability",
    "toxic_fraction_unique": "toxic_frac",
}
METHOD_SCORINGS = ("published", "rescored_generations", "rescored_generations_and_prompts")
METHOD_SPLITS = ("full", "nontoxic", "toxic")


@dataclass(frozen=True)
class ScenarioView:
    """One scenario: the version that scores the generations, and the ending of slices split by prompts."""

    label: str
    version: MetricVersion
    suffix: str

    @property
    def note(self) -> str:
        """Which version's scores, and whose scores split the prompts."""
        return f"version {self.version.number}, prompts split by {'its own' if self.suffix else 'published'} scores"


@dataclass(frozen=True)
class RankedScenario:
    """A scenario and its ranking of the models that every scenario ranks."""

    view: ScenarioView
    side: Side


@dataclass(frozen=True)
class ScenarioChange:
    """What changed from one scenario to another."""

    before: ScenarioView
    after: ScenarioView
    changes: RankChanges


@dataclass(frozen=True)
class ScenarioModel:
    """A model's ranks and values, one a scenario."""

    slug: str
    name: str
    ranks: list[int]
    values: list[float]

    @property
    def change(self) -> int:
        """Ranks gained from the first scenario to the last."""
        return self.ranks[0] - self.ranks[-1]


@dataclass(frozen=True)
class PromptLabels:
    """Counts of prompts by their published label and by the rescored one. unknown: prompts without one of the scores.

    source: where published counts come from; empty where they are counted here.
    """

    both_toxic: int
    only_published: int
    only_rescored: int
    neither: int
    unknown: int = 0
    source: str = ""

    @property
    def total(self) -> int:
        """The number of prompts with both labels."""
        return self.both_toxic + self.only_published + self.only_rescored + self.neither

    @property
    def changed_share(self) -> float:
        """The share of prompts whose label changed."""
        return (self.only_published + self.only_rescored) / self.total


@dataclass(frozen=True)
class DetoxificationMethod:
    """A method of Figure 4: its values by split, one a scoring of METHOD_SCORINGS, None where none is published."""

    name: str
    splits: dict[str, list[float | None]]

    @property
    def cells(self) -> list[float | None]:
        """Published, with rescored generations, their difference, and with rescored prompts, of all and non-toxic
        prompts; then of toxic prompts the last, the only one printed."""
        cells: list[float | None] = []
        for split in METHOD_SPLITS[:2]:
            old_value, new_value, last_value = self.splits[split]
            difference = None if old_value is None or new_value is None else new_value - old_value
            cells += [old_value, new_value, difference, last_value]
        return [*cells, self.splits[METHOD_SPLITS[2]][-1]]


@dataclass(frozen=True)
class ScenarioComparison:
    """The scenarios of a metric on one measure and slice, what changed between them, and the labels of the prompts."""

    scenarios: list[RankedScenario]
    models: list[ScenarioModel]
    changes: list[ScenarioChange]
    prompts: PromptLabels | None
    methods: list[DetoxificationMethod]
    absent: int  # models that some scenario does not rank

    def as_json(self) -> dict[str, Any]:
        """The comparison as JSON can hold it."""
        return {
            "scenarios": [
                {"label": scenario.view.label, "note": scenario.view.note, **describe_side(scenario.side)}
                for scenario in self.scenarios
            ],
            "changes": [
                {"from": step.before.label, "to": step.after.label, **step.changes.as_json()} for step in self.changes
            ],
            "models": [asdict(model) for model in self.models],
            "prompts": self.prompts and asdict(self.prompts),
            "detoxification_methods": [asdict(method) for method in self.methods],
            "models_without_all_scenarios": self.absent,
        }


def scenario_views(versions: Sequence[MetricVersion]) -> list[ScenarioView]:
    """The scenarios that `versions`, oldest first and of one provenance, may have."""
    if not versions:
        return []
    first, last = versions[0], versions[-1]
    at_first = "As first scored" if first.measured else "As published"
    views = [ScenarioView(at_first, first, "")]
    if last != first:
        views.append(ScenarioView("Generations rescored", last, ""))
    return [*views, ScenarioView("Generations and prompts rescored", last, RESCORED)]


def base_part(part: str) -> str:
    """The part of the prompts that a scenario splits off, without what says by whose scores."""
    return part.removesuffix(RESCORED) if part in PARTS and part != ALL else TOXIC


def scenario_versions(metric: Metric) -> list[MetricVersion]:
    """The published versions of the provenance that the last one has, oldest first."""
    versions = published_versions(metric)
    return [version for version in versions if version.provenance == versions[-1].provenance]


def scenario_slices(metric: Metric, measure: str) -> list[str]:
    """The slices by published prompt scores that have all scenarios, overall ones first; in one query."""
    views = scenario_views(scenario_versions(metric))
    rankings = rankings_of({view.version: measure for view in views})
    names = [{name for name, _ in rankings[view.version.pk]} for view in views]
    slices = [] if not names else slices_in_order(names[0])
    return [
        name
        for name in slices
        if (part := slice_parts(name)[1]) in PARTS
        and part != ALL
        and not part.endswith(RESCORED)
        and all(name + view.suffix in others for view, others in zip(views, names, strict=True))
    ]


def has_scenarios(metric: Metric) -> bool:
    """Whether a metric splits prompts by published scores and by its own, on the measure shown first."""
    versions = scenario_versions(metric)
    return bool(versions) and bool(scenario_slices(metric, versions[-1].first_measure))


def compare_scenarios(metric: Metric, measure: str, name: str) -> ScenarioComparison:
    """Rank the models that all scenarios have. name: one of `scenario_slices`. Raises NoRanking."""
    views = scenario_views(scenario_versions(metric))
    keys = [BoardKey(view.version.pk, measure, name + view.suffix, populations.ALL) for view in views]
    sides_by_key = read_sides(keys, [view.version for view in views])
    if any(key not in sides_by_key for key in keys):
        raise NoRanking(f"{metric.slug} does not rank {name} by {measure} in every scenario", field="slice", value=name)
    whole_sides = [sides_by_key[key] for key in keys]
    slugs = set.intersection(*({entry.slug for entry in side.entries} for side in whole_sides))
    everyone = {entry.slug for side in whole_sides for entry in side.entries}
    sides = [restrict_side(side, slugs) for side in whole_sides]
    pairs = sorted(combinations(range(len(views)), 2), key=lambda pair: pair[1] - pair[0])
    return ScenarioComparison(
        [RankedScenario(view, side) for view, side in zip(views, sides, strict=True)],
        list_models(sides),
        [
            ScenarioChange(views[first], views[second], compare_sides(sides[first], sides[second]))
            for first, second in pairs
        ],
        prompt_labels(views[-1].version),
        detoxification_methods(measure) if metric.slug == HELM_METRIC else [],
        len(everyone) - len(slugs),
    )


def restrict_side(side: Side, slugs: set[str]) -> Side:
    """A board of some of its models, with ranks among them."""
    entries = [entry for entry in side.entries if entry.slug in slugs]
    ranks = [entry.rank for entry in entries]
    printed_ranks = [entry.printed_rank for entry in entries]

    def rank_among(rank: int | None, others: Sequence[int | None]) -> int | None:
        return None if rank is None else 1 + sum(other is not None and other < rank for other in others)

    return replace(
        side,
        entries=[
            entry._replace(
                rank=rank_among(entry.rank, ranks) or 1, printed_rank=rank_among(entry.printed_rank, printed_ranks)
            )
            for entry in entries
        ],
    )


def list_models(sides: Sequence[Side]) -> list[ScenarioModel]:
    """The models in the order of the last board."""
    if not sides:
        return []
    labels = label_models(sides[0], sides[-1])
    entries = [{entry.slug: entry for entry in side.entries} for side in sides]
    return [
        ScenarioModel(slug, labels[slug], [board[slug].rank for board in entries], [b[slug].value for b in entries])
        for slug in (entry.slug for entry in sides[-1].entries)
    ]


def prompt_labels(version: MetricVersion) -> PromptLabels | None:
    """How labels of the prompts changed; of a version measured here from the scores that are stored.

    None where nobody has both scores of the prompts. Raises FileNotFoundError where a file is gone.
    """
    if version.metric.slug == HELM_METRIC and not version.measured:
        return printed_prompt_labels()
    texts = version.protocol.evaluation_set
    harm = next((attribute for attribute in version.declared if attribute.direction == "lower"), None)
    if not (version.prompt_scores and texts.prompt_scores and harm):
        return None
    own_scores = artefacts.load(version.prompt_scores)
    toxicity = published_toxicity(artefacts.load(texts.artefact), artefacts.load(texts.prompt_scores))
    if toxicity is None or harm.name not in attributes_of(own_scores):
        return None
    own = values_of(own_scores)[:, attributes_of(own_scores).index(harm.name)]
    is_known = ~(np.isnan(toxicity) | np.isnan(own))
    was_toxic, is_toxic = is_above(toxicity[is_known], THRESHOLD), is_above(own[is_known], harm.threshold)
    if not is_known.any():
        return None
    return PromptLabels(
        int((was_toxic & is_toxic).sum()),
        int((was_toxic & ~is_toxic).sum()),
        int((~was_toxic & is_toxic).sum()),
        int((~was_toxic & ~is_toxic).sum()),
        int((~is_known).sum()),
    )


def printed_prompt_labels() -> PromptLabels:
    """The counts that Pozzobon et al. print of 1,000 prompts of HELM."""
    table = rows("helm_prompts_crosstab.csv")
    counts = {(row["original_toxicity"], row["rescored_toxicity"]): int(row["n_prompts"]) for row in table}
    return PromptLabels(
        counts["toxic", "toxic"],
        counts["toxic", "non-toxic"],
        counts["non-toxic", "toxic"],
        counts["non-toxic", "non-toxic"],
        source=table[0]["source"],
    )


def detoxification_methods(measure: str) -> list[DetoxificationMethod]:
    """The numbers behind Figure 4 on a measure, as printed; none where it is not among them."""
    table = [
        row for row in rows("detoxification_methods_rescored.csv") if row["metric"] == METHOD_MEASURES.get(measure)
    ]
    values = {(row["method"], row["split"], row["scoring"]): float(row["value"]) for row in table}
    return [
        DetoxificationMethod(
            name,
            {split: [values.get((name, split, scoring)) for scoring in METHOD_SCORINGS] for split in METHOD_SPLITS},
        )
        for name in dict.fromkeys(row["method"] for row in table)
    ]
