"""Which safety measure answers the question: simulated models of known separation and spread, tests, and speed.

A model here is normal log-perplexities: its spread is their standard deviation, its separation by how many of these
harmful sentences lie above benign ones. What a board ranks by should follow the separation and not the spread.
"""

import csv
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from scoring.evaluation_sets import LabelledSentence, read_safenlp, to_table
from scoring.metrics.safety import (
    ALL,
    AVERAGE,
    LIKELIHOOD_AUC,
    SAFETY_EXCESS,
    SAFETY_INDIFFERENT,
    SAFETY_SCORE,
    Texts,
    indifferences,
    measure_safety,
)
from scoring.statistics.auc import area, delong_p, mann_whitney_p
from tests.data import TOXIGEN

Array = NDArray[np.float64]
SHOWN = (SAFETY_SCORE, SAFETY_INDIFFERENT, SAFETY_EXCESS, LIKELIHOOD_AUC)
TOXICITIES = Path(__file__).parent.parent.parent / "leaderboard" / "published" / "toxigen_toxicities.csv"
SPREADS = (0.3, 0.6, 1.0, 1.5, 2.0)
LEVEL = 0.05


def texts_of(demographic: str, times: int = 1) -> Texts:
    """Sentences with the labels and toxicities of a demographic in ToxiGen."""
    with TOXICITIES.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["target_group"] == demographic]
    sentences = [
        LabelledSentence(f"{place}-{number}", "text", row["label"] == "harmful", float(row["toxicity"]), (demographic,))
        for place, row in enumerate(rows)
        for number in range(int(row["texts"]) * times)
    ]
    return Texts.from_table(to_table(sentences))


def measured(texts: Texts, log_perplexity: Array, name: str = ALL) -> dict[str, float]:
    """The measures on a slice, by key."""
    return {one.measure: one.value for one in measure_safety(texts, log_perplexity) if one.slice == name}


def print_row(label: str, values: dict[str, float]) -> None:
    """A row of the table of measures."""
    print(f"  {label:42}" + "".join(f"{values[measure.key]:>20.3f}" for measure in SHOWN))


def print_invariances(generator: np.random.Generator) -> None:
    """What happens to each measure where only the spread, the scale or the separation of a model changes."""
    texts = texts_of("women", 20)  # many, so that what is seen is no noise
    noise = generator.normal(0, 1, len(texts.ids))
    print(f"  {'model':42}" + "".join(f"{measure.label:>20.20}" for measure in SHOWN))
    for separation, label in ((0.0, "indifferent"), (0.2, "separation 0.2")):
        for spread in SPREADS:
            print_row(f"{label}, spread {spread}", measured(texts, 3 + spread * (noise + separation * texts.harmful)))
    base = 3 + noise + 0.2 * texts.harmful
    print_row("separation 0.2, every perplexity times 10", measured(texts, base + np.log(10)))
    print_row("separation 0.2, every perplexity squared", measured(texts, 2 * base))
    for wide, narrow in ((1.5, 1.0), (1.0, 1.5)):
        values = 3 + noise * np.where(texts.harmful, wide, narrow)
        print_row(f"same mean, spread {wide} harmful, {narrow} benign", measured(texts, values))


def print_order(generator: np.random.Generator, models: int = 200) -> None:
    """How the order of models with drawn separations and spreads follows either."""
    texts = texts_of("women")
    separations, spreads = generator.uniform(-0.1, 0.5, models), generator.uniform(*SPREADS[::4], models)
    values: dict[str, list[float]] = {measure.key: [] for measure in SHOWN}
    for separation, spread in zip(separations, spreads, strict=True):
        drawn = generator.normal(0, 1, len(texts.ids)) + separation * texts.harmful
        for key, value in measured(texts, 3 + spread * drawn).items():
            if key in values:
                values[key].append(value)
    print(f"\n  rank correlation over {models} models{'with separation':>24}{'with spread':>16}")
    for measure in SHOWN:
        found = [stats.spearmanr(values[measure.key], truth)[0] for truth in (separations, spreads)]
        print(f"  {measure.label:34}{found[0]:>20.2f}{found[1]:>16.2f}")


def print_rejections(generator: np.random.Generator, draws: int = 3000) -> None:
    """How often tests at 5% find something where there is nothing."""
    print(f"\n  false rejections at 5%, {draws:,} draws{'Mann-Whitney':>24}{'DeLong':>10}")
    for n, m, wide, narrow in ((30, 300, 3, 1), (30, 300, 1, 3), (30, 300, 1, 1), (200, 300, 1.5, 1)):
        rejected = np.zeros(2)
        for _ in range(draws):
            harmful, benign = generator.normal(0, wide, n), generator.normal(0, narrow, m)
            found = area(harmful, benign)
            rejected += [mann_whitney_p(found, harmful, benign) < LEVEL, delong_p(found) < LEVEL]
        label = f"{n} harmful of SD {wide}, {m} benign of SD {narrow}"
        print(f"  {label:44}{rejected[0] / draws:>14.1%}{rejected[1] / draws:>10.1%}")
    texts = texts_of("chinese")
    rejected = np.zeros(2)
    for _ in range(draws // 5):
        found = {one.measure: one.p_value for one in measure_safety(texts, generator.normal(3, 1, len(texts.ids)))}
        rejected += [found[key] < LEVEL for key in (LIKELIHOOD_AUC.key, SAFETY_EXCESS.key)]
    print(f"  an indifferent model on the {len(texts.ids)} texts about one demographic, {draws // 5} draws:")
    print(f"    likelihood AUC {rejected[0] / (draws // 5):.1%}, excess {rejected[1] / (draws // 5):.1%}")


def print_speed(generator: np.random.Generator) -> None:
    """What the indifferent value costs."""
    everyone = texts_of("women", 10)
    sets = {f"{len(everyone.ids):,} texts about one demographic": everyone}
    if TOXIGEN.exists():
        texts = Texts.from_table(to_table(read_safenlp(TOXIGEN)))
        sets[f"{len(texts.ids):,} texts about {len(texts.member)} demographics"] = texts
    print()
    for label, texts in sets.items():
        values = generator.normal(3, 1, (10, len(texts.ids)))
        began = time.process_time()
        for row in values:
            indifferences(texts, row)
        value_alone = (time.process_time() - began) / len(values)
        began = time.process_time()
        for row in values:
            measure_safety(texts, row)
        everything = (time.process_time() - began) / len(values)
        print(f"  {label}: indifferent value {value_alone * 1000:.0f} ms of {everything * 1000:.0f} ms a model")


def print_permuted(generator: np.random.Generator) -> None:
    """The indifferent value against permuted perplexities, on all demographics of ToxiGen."""
    if not TOXIGEN.exists():
        return
    texts = Texts.from_table(to_table(read_safenlp(TOXIGEN)))
    values = generator.normal(3, 1, len(texts.ids)) + 0.2 * texts.harmful
    (name, member), *_ = texts.member.items()
    alone = Texts(
        [id_ for id_, inside in zip(texts.ids, member, strict=True) if inside],
        texts.harmful[member],
        texts.toxicity[member],
        {ALL: np.ones(int(member.sum()), dtype=bool)},
        texts.stratum[member],
    )
    offsets = np.log(alone.toxicity)
    dealt = []
    for _ in range(2000):
        shuffled = generator.permutation(values[member]) - offsets
        dealt.append(area(shuffled[alone.harmful], shuffled[~alone.harmful]).value)
    exact = indifferences(texts, values)[name].value
    error = np.std(dealt) / np.sqrt(len(dealt))
    print(f"\n  {name}: exact {exact:.4f}, mean of {len(dealt):,} permutations {np.mean(dealt):.4f} +- {error:.4f}")
    print_row("average over ToxiGen's demographics", measured(texts, values, AVERAGE))


def safety_table() -> None:
    """Print what each measure does, and why boards rank by the likelihood AUC."""
    generator = np.random.default_rng(20261122)
    print_invariances(generator)
    print_order(generator)
    print_rejections(generator)
    print_permuted(generator)
    print_speed(generator)
