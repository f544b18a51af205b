"""Figures of a grid of students: do depth and width move the safety score?"""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from scoring.evaluation_sets import LabelledSentence, read_safenlp, to_table
from scoring.language_models import LoadedModel, load, resolve
from scoring.likelihood import LikelihoodSettings, token_log_likelihoods
from scoring.metrics.safety import ALL, AVERAGE, RANKED, SAFETY_INDIFFERENT, Texts, measure_safety
from scoring.refusals import Refused
from scoring.statistics.correlations import spearman
from scoring.text_files import read_texts

SIZES = ("layers", "hidden", "parameters")
DIGITS = 6

Figures = list[dict[str, Any]]  # a row for each model, by column; None where there is no value


def measure_grid(models: Sequence[Path], sentences: Path, texts: Path, share: float = 1.0) -> Iterator[dict[str, Any]]:
    """Yield the figures of each model, measured on a share of labelled sentences and on texts.

    They are model, sizes, the safety measures averaged over demographics with their 95% intervals, the standard
    deviation of the sentences' log-perplexities, and the perplexity of the texts. Raises as `resolve`, `load`,
    `read_safenlp` and `read_texts` do.
    """
    sentence_rows = draw_share(read_safenlp(sentences), share)
    held_out = [text for text in read_texts(texts) if text.strip()]
    if not held_out:
        raise Refused.of_value("texts", str(texts), "holds no text; give one a line")
    evaluation_set = Texts.from_table(to_table(sentence_rows))
    for folder in models:
        resolved_model = resolve(str(folder))
        model = load(resolved_model.source, resolved_model.location, resolved_model.revision)
        means = mean_log_likelihoods(model, [sentence.text for sentence in sentence_rows], folder.name)
        likelihoods = token_log_likelihoods(model, held_out, LikelihoodSettings())
        tokens = np.concatenate([likelihood.tokens for likelihood in likelihoods])
        yield {
            "model": folder.name,
            "layers": resolved_model.architecture.layers,
            "hidden": resolved_model.architecture.hidden_size,
            "parameters": resolved_model.architecture.parameters,
            "sentences": len(sentence_rows),
            **summarise_safety(evaluation_set, -means),
            "log_perplexity_sd": float(np.nanstd(means)),
            "perplexity": float(np.exp(-tokens.mean(dtype=np.float64))),
        }


def draw_share(sentences: Sequence[LabelledSentence], share: float) -> list[LabelledSentence]:
    """A share of the sentences of each first demographic and label, at least one, in their order; always the same.

    Raises Refused where `share` is not above 0 and up to 1.
    """
    if not 0 < share <= 1:
        raise Refused.of_value("share", share, "use a number above 0, up to 1")
    strata: dict[tuple[str, bool], list[int]] = {}
    for number, sentence in enumerate(sentences):
        strata.setdefault((sentence.demographics[0], sentence.harmful), []).append(number)
    generator = np.random.default_rng(0)
    draws = [generator.permutation(rows)[: max(1, round(share * len(rows)))] for rows in strata.values()]
    return [sentences[number] for number in sorted(np.concatenate(draws).tolist())]


def mean_log_likelihoods(model: LoadedModel, texts: Sequence[str], title: str) -> NDArray[np.float64]:
    """Mean token log-likelihood of each text [n]; not a number where it has no token to score."""
    likelihoods = token_log_likelihoods(model, texts, LikelihoodSettings())
    means = [
        item.tokens.mean(dtype=np.float64) if not item.unscorable else np.nan
        for item in tqdm(likelihoods, desc=title, total=len(texts), unit="text")
    ]
    return np.array(means, dtype=np.float64)


def summarise_safety(texts: Texts, log_perplexity: NDArray[np.float64]) -> dict[str, float | None]:
    """The safety measures of the average over demographics, with the ends of their intervals."""
    keys = {measure.key for measure in (*RANKED, SAFETY_INDIFFERENT)}
    summary: dict[str, float | None] = {}
    for measurement in measure_safety(texts, log_perplexity):
        if measurement.slice != (AVERAGE if texts.has_average else ALL) or measurement.measure not in keys:
            continue
        summary[measurement.measure] = measurement.value
        if measurement.measure != SAFETY_INDIFFERENT.key:
            summary[f"{measurement.measure}_low"] = measurement.ci_low
            summary[f"{measurement.measure}_high"] = measurement.ci_high
    return summary


def write_figures(figures: Figures, path: Path) -> None:
    """Write a CSV; numbers that are not whole with six decimals."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(figures[0]), lineterminator="\n")
        writer.writeheader()
        for row in figures:
            writer.writerow({key: f"{v:.{DIGITS}f}" if isinstance(v, float) else v for key, v in row.items()})


def correlate(figures: Figures) -> list[str]:
    """Lines of a Markdown table: Spearman's rho of each size with each figure, with its 95% interval."""
    outcomes = [measure.key for measure in RANKED] + ["log_perplexity_sd", "perplexity"]
    lines = [f"| {len(figures)} models | {' | '.join(SIZES)} |", "|---" * (len(SIZES) + 1) + "|"]
    for outcome in outcomes:
        cells = [describe_correlation(figures, size, outcome) for size in SIZES]
        lines.append(f"| {outcome} | {' | '.join(cells)} |")
    return lines


def describe_correlation(figures: Figures, first: str, second: str) -> str:
    """As in `-0.73 [-0.95, 0.05]`; `none` where a column does not vary."""
    columns = [np.array([row[name] for row in figures], dtype=np.float64) for name in (first, second)]
    correlation = spearman(*columns)
    if correlation.value is None:
        return "none"
    if correlation.low is None or correlation.high is None:
        return f"{correlation.value:.2f}"
    return f"{correlation.value:.2f} [{correlation.low:.2f}, {correlation.high:.2f}]"
