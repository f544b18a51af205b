"""How often intervals from counts alone hold the true safety score, on the toxicities and counts of ToxiGen.

Log-perplexities are drawn with the moments that Hosseini et al. 2023 print of 24 models (Table 9) and with narrower
ones, in three shapes; each text's toxicity is drawn from those of its demographic and label. The score compares
perplexities divided by toxicities, as the published one does.
"""

import csv
from pathlib import Path

import numpy as np
import scipy
from numpy.typing import NDArray

from scoring.metrics.approximate_safety import Moments, Toxicities
from scoring.statistics.area_bounds import conservative_interval, hanley_mcneil_variance

Array = NDArray[np.float64]
PUBLISHED = Path(__file__).parent.parent.parent / "leaderboard" / "published"
SHAPES = ("normal", "heavy tails", "skewed")  # Student's t with 3 degrees of freedom; exponential
NARROW = [(Moments(effect, spread), Moments(0, spread)) for spread in (0.4, 0.8) for effect in (-0.2, 0.0, 0.2)]
DRAWS, LARGE = 500, 200_000
SEED = 20230122
Z = float(scipy.stats.norm.ppf(0.975))


def read_toxicities() -> dict[str, Toxicities]:
    """The toxicities of each demographic's texts."""
    with (PUBLISHED / "toxigen_toxicities.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    texts: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        by_label = texts.setdefault(row["target_group"], {"harmful": [], "benign": []})
        by_label[row["label"]] += [float(row["toxicity"])] * int(row["texts"])
    return {name: Toxicities(np.array(one["harmful"]), np.array(one["benign"])) for name, one in texts.items()}


def read_moments() -> list[tuple[Moments, Moments]]:
    """Those of each published model, of harmful and of benign texts."""
    with (PUBLISHED / "log_perplexity.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    models: dict[str, dict[str, Moments]] = {}
    for row in rows:
        models.setdefault(row["model"], {})[row["label"]] = Moments(float(row["mean"]), float(row["std"]))
    return [(one["harmful"], one["benign"]) for one in models.values()]


def draw(
    generator: np.random.Generator, shape: str, moments: Moments, toxicities: Array, size: tuple[int, ...]
) -> Array:
    """Log-perplexities less the logarithms of drawn toxicities."""
    if shape == "normal":
        noise = generator.normal(size=size)
    elif shape == "heavy tails":
        noise = generator.standard_t(3, size=size) / np.sqrt(3)
    else:
        noise = generator.exponential(size=size) - 1
    return moments.mean + moments.deviation * noise - np.log(generator.choice(toxicities, size))


def areas_of(harmful: Array, benign: Array) -> Array:
    """The area of each row of [draws, n] and [draws, m], by ranks."""
    n, m = harmful.shape[1], benign.shape[1]
    ranks = np.argsort(np.argsort(np.concatenate([harmful, benign], axis=1), axis=1), axis=1)[:, :n] + 1
    return np.asarray((ranks.sum(axis=1) - n * (n + 1) / 2) / (n * m))


def coverage(
    generator: np.random.Generator, shape: str, moments: tuple[Moments, Moments], texts: Toxicities, draws: int = DRAWS
) -> tuple[float, float, float]:
    """Shares of draws whose interval holds the truth: Hanley and McNeil's, the conservative one; its mean width."""
    harmful, benign = moments
    n, m = len(texts.harmful), len(texts.benign)
    many = np.sort(draw(generator, shape, benign, texts.benign, (LARGE,)))
    truth = float(np.searchsorted(many, draw(generator, shape, harmful, texts.harmful, (LARGE,))).mean() / LARGE)
    areas = areas_of(
        draw(generator, shape, harmful, texts.harmful, (draws, n)),
        draw(generator, shape, benign, texts.benign, (draws, m)),
    )
    by_formula = np.abs(areas - truth) <= Z * np.sqrt(hanley_mcneil_variance(areas, n, m))
    low, high = conservative_interval(areas, n, m)
    return float(by_formula.mean()), float(((low <= truth) & (truth <= high)).mean()), float((high - low).mean())


def areas_table() -> None:
    """Print coverage for each shape: over all demographics and moments, and the least of any."""
    generator = np.random.default_rng(SEED)
    toxicities, scenarios = read_toxicities(), [*read_moments(), *NARROW]
    print(f"95% intervals of safety scores from counts, {len(toxicities)} demographics, {len(scenarios)} models")
    print(f"{'':>14}{'Hanley, McNeil':>24}{'conservative':>24}{'mean width':>12}")
    print(f"{'':>14}{'mean':>12}{'least':>12}{'mean':>12}{'least':>12}")
    for shape in SHAPES:
        rows = np.array(
            [coverage(generator, shape, moments, texts) for texts in toxicities.values() for moments in scenarios]
        )
        print(
            f"{shape:>14}{rows[:, 0].mean():>12.1%}{rows[:, 0].min():>12.1%}"
            f"{rows[:, 1].mean():>12.1%}{rows[:, 1].min():>12.1%}{rows[:, 2].mean():>12.3f}"
        )
