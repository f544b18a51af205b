"""What newer libraries do to numbers: `make upgrade` computes the same ones in the old and the new environment.

    python -m tests.upgrade compute FILE        likelihoods, continuations, scores and measures here, as JSON
    python -m tests.upgrade compare OLD NEW     which libraries differ, and which numbers by more than 1e-6

Covered is what comes with Plumbline: its miniatures, the starter set and the scorers that need no download.
"""

import argparse
import json
import math
import warnings
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import numpy as np
import torch

from scoring.evaluation_sets import Prompt, build_starter, to_table
from scoring.generation import PROTOCOLS, continuations
from scoring.language_models import LoadedModel, list_bundled, load, resolve
from scoring.likelihood import LikelihoodSettings, token_log_likelihoods
from scoring.metrics.lexicon_frequency import measure_lexicon_frequency
from scoring.metrics.measures import Measurement
from scoring.metrics.safety import Texts, measure_safety
from scoring.metrics.sentence_pairs import measure_pairs
from scoring.metrics.toxicity import measure_toxicity
from scoring.scorers import get_scorer
from scoring.statistics.correlations import kendall, pearson, spearman

TOLERANCE = 1e-6
SENTENCES = build_starter()[::4]  # some of each demographic, harmful and benign
TEXTS = [sentence.text for sentence in SENTENCES]
PROMPTS = [Prompt(sentence.id, " ".join(sentence.text.split()[:3])) for sentence in SENTENCES[::12]]
SCORERS = ("profanity", "lexicon:starter")
LARGEST = 5  # of the numbers that moved, so many are named in each group
Numbers = dict[str, float | None]


def compute() -> dict[str, Any]:
    """The versions of all packages here, and numbers by group and name; None where there is none."""
    models = {folder.name: _load(folder) for folder in list_bundled()}
    log_perplexities = {name: _log_perplexities(model) for name, model in models.items()}
    groups: dict[str, Numbers] = {}
    for name, values in log_perplexities.items():
        groups[f"log-perplexities of {name}"] = _name_numbers([sentence.id for sentence in SENTENCES], values)
        groups[f"safety of {name}"] = _flatten(measure_safety(Texts.from_table(to_table(SENTENCES)), values))
        groups[f"pairs of {name}"] = _flatten(measure_pairs(values[::2] - values[1::2], {}))
    groups["correlations of models"] = dict(_correlate(log_perplexities))
    causal = {name: model for name, model in models.items() if model.architecture.kind == "causal"}
    for name, model in causal.items():
        groups |= _measure_continuations(name, model)
    for scorer in SCORERS:
        values = get_scorer(scorer).score(TEXTS).values
        groups[f"scores by {scorer}"] = _name_numbers([f"{row}" for row in np.ndindex(values.shape)], values.ravel())
    packages = {package.name.lower(): package.version for package in distributions()}
    return {"packages": packages, "groups": groups}


def compare(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Lines that say which packages differ, which numbers of each group moved, and how many of all."""
    lines = [
        f"{name}: {old['packages'].get(name, 'not installed')} -> {new['packages'].get(name, 'not installed')}"
        for name in sorted(old["packages"].keys() | new["packages"].keys())
        if old["packages"].get(name) != new["packages"].get(name)
    ]
    total = moved_count = 0
    for group in sorted(old["groups"].keys() | new["groups"].keys()):
        before, after = old["groups"].get(group, {}), new["groups"].get(group, {})
        names = before.keys() | after.keys()
        moves = {name: _distance(before.get(name), after.get(name)) for name in names}
        moves = {name: move for name, move in moves.items() if move > TOLERANCE}
        total, moved_count = total + len(names), moved_count + len(moves)
        if moves:
            lines.append(f"{group}: {len(moves)} of {len(names)} moved, most of all")
        for name in sorted(moves, key=lambda name: (-moves[name], name))[:LARGEST]:
            lines.append(f"    {name}: {before.get(name)} -> {after.get(name)}")
    return [*lines, f"{moved_count} of {total} numbers moved by more than {TOLERANCE:g}"]


def _load(folder: Path) -> LoadedModel:
    model = resolve(str(folder))
    return load(model.source, model.location, model.revision, device=torch.device("cpu"))


def _log_perplexities(model: LoadedModel) -> np.ndarray:
    likelihoods = token_log_likelihoods(model, TEXTS, LikelihoodSettings())
    return np.array([likelihood.log_perplexity for likelihood in likelihoods], dtype=np.float64)


def _measure_continuations(name: str, model: LoadedModel) -> dict[str, Numbers]:
    """A checksum of each continuation, its scores, and their measures."""
    by_prompt = continuations(model, PROMPTS, replace(PROTOCOLS["rtp"], k=5))
    texts = [continuation.text or "" for row in by_prompt for continuation in row]
    sums = np.array([zlib.crc32(text.encode()) for text in texts]).reshape(len(by_prompt), -1)
    profanity, lexicon = (get_scorer(scorer) for scorer in SCORERS)
    scores, matches = (scorer.score(texts).values.reshape(*sums.shape, -1) for scorer in (profanity, lexicon))
    categories = [attribute.name for attribute in lexicon.attributes[:-1]]
    return {
        f"continuations by {name}": _name_numbers([f"{row}" for row in np.ndindex(sums.shape)], sums.ravel()),
        f"toxicity of {name}": _flatten(measure_toxicity(scores, profanity.attributes, sums)),
        f"lexicon frequency of {name}": _flatten(measure_lexicon_frequency(matches[:, :, :-1], categories)),
    }


def _correlate(columns: dict[str, np.ndarray]) -> Iterator[tuple[str, float | None]]:
    first, *others = columns
    for other in others:
        for correlate in (pearson, spearman, kendall):
            result = correlate(columns[first], columns[other])
            for part in ("value", "low", "high"):
                yield f"{correlate.__name__} of {first} and {other}, {part}", getattr(result, part)


def _flatten(measurements: Sequence[Measurement]) -> Numbers:
    parts = ("value", "ci_low", "ci_high", "p_value", "p_adjusted", "worst_low", "worst_high", "n", "missing")
    return {f"{one.measure} on {one.slice}, {part}": getattr(one, part) for one in measurements for part in parts}


def _name_numbers(names: Sequence[str], values: np.ndarray) -> Numbers:
    return {name: None if math.isnan(value) else float(value) for name, value in zip(names, values, strict=True)}


def _distance(first: float | None, second: float | None) -> float:
    """The absolute difference; infinite where only one of the two is a number."""
    if first is None or second is None:
        return 0.0 if first is second else math.inf
    return abs(first - second)


def main() -> None:
    """Compute numbers, or compare those of two environments."""
    parser = argparse.ArgumentParser(prog="python -m tests.upgrade", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("compute").add_argument("file", type=Path)
    comparison = commands.add_parser("compare")
    comparison.add_argument("old", type=Path)
    comparison.add_argument("new", type=Path)
    arguments = parser.parse_args()
    if arguments.command == "compute":
        warnings.simplefilter("ignore")  # the tests turn them into errors
        arguments.file.parent.mkdir(parents=True, exist_ok=True)
        arguments.file.write_text(json.dumps(compute(), indent=1, allow_nan=False), encoding="utf-8")
    else:
        old, new = (json.loads(path.read_text(encoding="utf-8")) for path in (arguments.old, arguments.new))
        print("\n".join(compare(old, new)))


if __name__ == "__main__":
    main()
