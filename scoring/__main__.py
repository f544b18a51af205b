"""The engine at the command line, also as `plumbline` where the package is installed.

python -m scoring perplexity --model REF --texts FILE > likelihoods.jsonl
python -m scoring safety FILE > scores.json
python -m scoring safety FILE --as-published > scores.json
python -m scoring stereotype FILE > scores.json
python -m scoring effect FILE > scores.json
python -m scoring score --scorer NAME < texts.jsonl > scores.jsonl
python -m scoring report-card FILE --scorer NAME > card.json
python -m scoring fetch-manifest URL FOLDER
python -m scoring check-manifest FOLDER
"""

import argparse
import atexit
import gc
import json
import math
import os
import sys
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from scoring import language_models, likelihood
from scoring.evaluation_sets import EvaluationSetError, FetchError, get, read_scored, to_table
from scoring.evaluation_sets.triples import read_stereoset
from scoring.language_models.product_rates import require_speed
from scoring.likelihood import LikelihoodSettings, TextLikelihood
from scoring.manifest import check as check_manifest
from scoring.manifest_download import download as download_manifest
from scoring.metrics.measures import Measurement
from scoring.metrics.safety import AVERAGE, RANKED, SAFETY_INDIFFERENT, Texts, measure_as_published, measure_safety
from scoring.metrics.sentence_pairs import measure_pairs
from scoring.metrics.sentence_triples import measure_triples
from scoring.metrics.total_effect import measure_effects
from scoring.score_files import PAIR_COLUMNS, read_odds_ratios, read_pair_scores, read_predictions
from scoring.scorer_commands import add_commands
from scoring.scorers import ScorerUnavailable
from scoring.text_files import UnreadableTexts, read_texts

REFUSALS = (
    language_models.ModelRefused,
    language_models.HubUnavailable,
    likelihood.NotApplicable,
    EvaluationSetError,
    FetchError,
    ScorerUnavailable,
    ValueError,
    OSError,
)

MEANINGS = {
    "bos": "none: the first token of a causal text is not scored; prepend: a token goes before it",
    "variant": "original: one token is masked at a time; word_l2r: also those after it of the same word",
    "mask_token": "tokenizer: the tokenizer's own; or an id, as in id:103",
    "stride": "tokens between windows over a text longer than the context",
    "precision": "of weights and activations: float32, bfloat16 or float16",
}


def main(arguments: list[str] | None = None) -> int:
    """Run one command. Returns 0, 1 where a check finds problems, or 2 after a message on standard error.

    The message says what is wrong and what to do.
    """
    atexit.register(gc.freeze)  # to look for circles as the process ends took a second where torch is imported
    args = parser().parse_args(arguments)
    status: int | None = None
    try:
        status = args.run(args)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read the output has seen enough
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (for what Python flushes as it ends)
    except REFUSALS as error:
        print(f"{args.command}: {error}", file=sys.stderr)  # noqa: T201
        return 2
    return status or 0


def parser() -> argparse.ArgumentParser:
    """The commands and their options."""
    name = "plumbline" if Path(sys.argv[0]).name == "plumbline" else "python -m scoring"
    whole = argparse.ArgumentParser(prog=name, description="Numbers from texts and language models.")
    commands = whole.add_subparsers(dest="command", required=True)
    perplexity = commands.add_parser(
        "perplexity",
        help="likelihoods of texts under a model",
        description="Print one JSON line per text, in order: n_tokens, log_likelihood (natural logarithm, summed over "
        "the scored tokens) and perplexity, or the reason why there is none. Progress goes to standard error.",
    )
    perplexity.add_argument("--model", required=True, metavar="REF", help="a hub id, a folder or a GGUF file")
    perplexity.add_argument("--revision", help="commit, branch or tag of a hub model (default: main, as it is now)")
    perplexity.add_argument(
        "--texts",
        required=True,
        type=Path,
        metavar="FILE",
        help="one text a line; or .jsonl with an object with text on each line; or .json with a list of such objects",
    )
    for field in fields(LikelihoodSettings):
        perplexity.add_argument(
            f"--{field.name.replace('_', '-')}",
            type=type(field.default),
            default=field.default,
            help=f"{MEANINGS[field.name]} (default: %(default)s)",
        )
    perplexity.set_defaults(run=run_perplexity)
    safety = commands.add_parser(
        "safety",
        help="safety scores of perplexities made by anyone",
        description="Print one JSON object: for each demographic safety_score, its value for an indifferent model "
        "(safety_indifferent), what it is above that (safety_excess) and likelihood_auc, with 95% intervals; of the "
        "last two p and p adjusted by Holm over the demographics; and counts of texts; and the average.",
    )
    safety.add_argument(
        "file",
        type=Path,
        metavar="FILE",
        help="JSON list, or .jsonl, of objects with text, label (hate or neutral), toxicity_score (1 to 5), "
        "target_groups and perplexity (null where a text has none)",
    )
    safety.add_argument(
        "--as-published",
        action="store_true",
        help="as the code published with the paper: of each demographic the safety score with Mann and Whitney's p "
        "that it is 0.5; those with p above 0.05 are left out, of their mean too. Beside them, what each choice does",
    )
    safety.set_defaults(run=run_safety)
    stereotype = commands.add_parser(
        "stereotype",
        help="stereotype scores of sentence scores made by anyone",
        description="Print one JSON object with the measures of each part of the set and of all: of StereoSet ICAT, "
        "language-modelling and stereotype score, of CrowS-Pairs the share of pairs in which the stereotyping sentence "
        "is the more likely one; with 95% intervals, counts, and how many could not be scored.",
    )
    stereotype.add_argument(
        "file",
        type=Path,
        metavar="FILE",
        help="predictions of StereoSet's code (.json: intrasentence and intersentence, lists of id and score), or the "
        f"table that the code of CrowS-Pairs writes (.csv: {', '.join(PAIR_COLUMNS)})",
    )
    stereotype.add_argument(
        "--set",
        type=Path,
        metavar="SET",
        dest="sentences",
        help="the triples that predictions are about: StereoSet's dev.json; or JSON lines as test.jsonl has them, "
        "where a sentence is known by line and association, as 12-stereotype (default: stereoset/test.jsonl in "
        "PLUMBLINE_DATA)",
    )
    stereotype.set_defaults(run=run_stereotype)
    effect = commands.add_parser(
        "effect",
        help="total effects of odds made by anyone",
        description="Print one JSON object with total effect and filtered total effect of each slice, with 95% "
        "intervals over pairs, and counts.",
    )
    effect.add_argument(
        "file",
        type=Path,
        metavar="FILE",
        help="JSON as the code of Vig et al. 2020 writes it, or .csv: for each pair odds_base and odds_alt, the odds "
        "of a man's continuation after a female and after a male pronoun, and optionally slice",
    )
    effect.set_defaults(run=run_effect)
    add_commands(commands)
    fetch_command = commands.add_parser(
        "fetch-manifest",
        help="download a published metric version: its manifest and artefacts",
        description="Download a manifest.json of a board and every artefact it gives an address for, verified and "
        "resumable, into a folder for check-manifest.",
    )
    fetch_command.add_argument("url", metavar="URL", help="as in https://HOST/metrics/METRIC/versions/1/manifest.json")
    fetch_command.add_argument("folder", type=Path, metavar="FOLDER", help="where the files go")
    fetch_command.set_defaults(run=run_fetch_manifest)
    check_command = commands.add_parser(
        "check-manifest",
        help="verify a published metric version from its manifest and artefacts",
        description="Hash every artefact, recompute every number from them and compare with the manifest. Exit status "
        "0 where everything agrees, 1 where something does not, 2 where there is no manifest.",
    )
    check_command.add_argument(
        "folder", type=Path, metavar="FOLDER", help="holds manifest.json and artefacts/SHA256.parquet"
    )
    check_command.set_defaults(run=run_check_manifest)
    return whole


def run_perplexity(args: argparse.Namespace) -> None:
    """Score the texts of a file as they are read."""
    settings = LikelihoodSettings(**{field.name: getattr(args, field.name) for field in fields(LikelihoodSettings)})
    first = next(read_texts(args.texts), None)  # before minutes of loading: is there anything to score?
    if first is None:
        raise UnreadableTexts(f"{args.texts} holds no text: give one a line")
    reference = language_models.resolve(args.model, revision=args.revision)
    require_speed(settings.precision)
    model = language_models.load(reference.source, reference.location, reference.revision, precision=settings.precision)
    with tqdm(desc=args.model, unit="text") as bar:
        for result in likelihood.token_log_likelihoods(model, read_texts(args.texts), settings):
            print(json.dumps(describe_likelihood(result), allow_nan=False))  # noqa: T201
            bar.update()


def describe_likelihood(likelihood: TextLikelihood) -> dict[str, Any]:
    """One line of the output."""
    count = len(likelihood.tokens)
    if likelihood.unscorable:
        return {"n_tokens": count, "reason": likelihood.unscorable.value}
    total = float(likelihood.tokens.sum(dtype=np.float64))
    numbers = {"n_tokens": count, "log_likelihood": total}
    if -total / count > math.log(sys.float_info.max):
        return {**numbers, "reason": "the perplexity exceeds the largest number"}
    return {**numbers, "perplexity": math.exp(-total / count)}


def run_safety(args: argparse.Namespace) -> None:
    """Score perplexities that are already there."""
    sentences, perplexities = read_scored(args.file)
    texts = Texts.from_table(to_table(sentences))
    content = (scores_as_published if args.as_published else scores)(texts, np.log(perplexities))
    print(json.dumps(content, indent=2, allow_nan=False))  # noqa: T201


def run_stereotype(args: argparse.Namespace) -> None:
    """Measure scores of sentences that are already there."""
    if args.file.suffix == ".csv":
        _print_measurements(measure_pairs(*read_pair_scores(args.file)))
        return
    data = Path(os.environ.get("PLUMBLINE_DATA", "var/data"))
    path = args.sentences or data / get("stereoset").files[0].path
    predictions = read_predictions(args.file, read_stereoset(path))
    if predictions.unknown:
        print(f"{args.file}: {predictions.unknown} ids are of no sentence of {path}", file=sys.stderr)  # noqa: T201
    _print_measurements(measure_triples(predictions.scores, predictions.targets, predictions.members))


def run_effect(args: argparse.Namespace) -> None:
    """Measure odds that are already there."""
    _print_measurements(measure_effects(read_odds_ratios(args.file)))


def _print_measurements(measurements: Iterable[Measurement]) -> None:
    by_slice: dict[str, dict[str, Any]] = {}
    for one in measurements:
        numbers = {"value": one.value, "interval": [one.ci_low, one.ci_high], "n": one.n, "missing": one.missing}
        if one.p_value is not None:
            numbers |= {"p": one.p_value, "p_adjusted": one.p_adjusted}
        by_slice.setdefault(one.slice, {})[one.measure] = numbers
    print(json.dumps(by_slice, indent=2, allow_nan=False))  # noqa: T201


def run_fetch_manifest(args: argparse.Namespace) -> None:
    """Download a version, and say what its board does not pass on."""
    with tqdm(desc="fetch-manifest", unit="file") as bar:

        def show(_path: str, count: int, total: int) -> None:
            if count == total:
                bar.update()

        withheld = download_manifest(args.url, args.folder, progress=show)
    for sha256 in withheld:
        print(f"{sha256}: the board does not pass this on; bring your own copy")  # noqa: T201
    print(f"{args.folder}: check it with `python -m scoring check-manifest {args.folder}`")  # noqa: T201


def run_check_manifest(args: argparse.Namespace) -> int:
    """Check a folder, and say what is wrong with it."""
    with tqdm(desc="check-manifest", unit="item") as bar:

        def show(count: int, total: int) -> None:
            bar.total = total
            bar.update(count - bar.n)

        verification = check_manifest(args.folder, show)
    for line in (*verification.notes, *verification.problems):
        print(line)  # noqa: T201
    counts = f"{verification.artefacts} artefacts hashed, {verification.results} numbers"
    counts += f" of {verification.entries} entries recomputed"
    print(f"{verification.title}: {len(verification.problems) or 'no'} problems; {counts}")  # noqa: T201
    return 1 if verification.problems else 0


def scores(texts: Texts, log_perplexity: np.ndarray) -> dict[str, Any]:
    """The object that `safety` prints."""
    measures = {measure.key for measure in (*RANKED, SAFETY_INDIFFERENT)}
    by_slice: dict[str, dict[str, Any]] = {}
    for measurement in measure_safety(texts, log_perplexity):
        if measurement.measure not in measures:
            continue
        numbers = by_slice.setdefault(measurement.slice, {})
        numbers[measurement.measure] = measurement.value
        if measurement.ci_low is not None:
            numbers[f"{measurement.measure}_interval"] = [measurement.ci_low, measurement.ci_high]
        if measurement.p_value is not None:
            numbers[f"{measurement.measure}_p"] = measurement.p_value
            numbers[f"{measurement.measure}_p_adjusted"] = measurement.p_adjusted
        numbers["unscorable"] = measurement.missing
    scorable = np.isfinite(log_perplexity)
    for name, numbers in by_slice.items():
        member = scorable & texts.member.get(name, scorable)
        numbers["harmful"] = int((member & texts.harmful).sum())
        numbers["benign"] = int((member & ~texts.harmful).sum())
    average = by_slice.pop(AVERAGE, None)
    return {"demographics": by_slice, "average": average} if average else {"demographics": by_slice}


def scores_as_published(texts: Texts, log_perplexity: np.ndarray) -> dict[str, Any]:
    """The object that `safety --as-published` prints.

    `average` is of the demographics that are reported. `choices` shows each choice of the published code undone, of all
    demographics: the test that leaves some out, the texts without a perplexity that are left out of the pairs, where
    the paper's tables count them, and the division by toxicity.
    """
    measurements = measure_as_published(texts, log_perplexity)
    reported_slices = {name: one for name, one in measurements.items() if one.reported}
    choices = {
        name: {
            "safety_score": one.score,
            "safety_score_over_all_texts": one.score_over_all_texts,
            "likelihood_auc": one.likelihood_auc,
            "unscorable": one.unscorable,
        }
        for name, one in measurements.items()
    }
    keys = ("safety_score", "safety_score_over_all_texts", "likelihood_auc")
    return {
        "demographics": {name: {"safety_score": one.score, "p": one.p_value} for name, one in reported_slices.items()},
        "left_out": {name: {"p": one.p_value} for name, one in measurements.items() if not one.reported},
        "average": float(np.mean([one.score for one in reported_slices.values()])) if reported_slices else None,
        "choices": choices,
        "average_of_all": {key: float(np.mean([numbers[key] for numbers in choices.values()])) for key in keys},
    }


if __name__ == "__main__":
    sys.exit(main())
