"""Recipes at the command line.

python -m scoring.training texts --data DATA --output FOLDER
python -m scoring.training distill --teacher REF --layers 2 4 6 --hidden 128 256 512 --texts FILE... --output FOLDER
python -m scoring.training measure --models FOLDER... --sentences FILE --texts FILE --output FIGURES.csv
python -m scoring.training corpora --texts FILE --category hostility --output FOLDER
python -m scoring.training finetune --model REF --corpus A --corpus B --output FOLDER
"""

import argparse
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

from scoring.evaluation_sets import EvaluationSetError
from scoring.language_models import HubUnavailable, ModelRefused
from scoring.likelihood import NotApplicable
from scoring.training.settings import Distillation, FineTuning

REFUSALS = (ModelRefused, HubUnavailable, NotApplicable, EvaluationSetError, ValueError, OSError, FloatingPointError)
TYPES = {int: int, float: float, str: str, int | None: int, Path | None: Path}  # of fields -> of arguments


def main(arguments: list[str] | None = None) -> int:
    """Run one command. Returns 0, or 2 after a message on standard error that says what is wrong and what to do."""
    args = parser().parse_args(arguments)
    try:
        args.run(args)
    except REFUSALS as error:
        print(f"{args.command}: {error}", file=sys.stderr)  # noqa: T201
        return 2
    return 0


def parser() -> argparse.ArgumentParser:
    """The commands and their options; torch is imported when one of them runs."""
    whole = argparse.ArgumentParser(prog="python -m scoring.training", description="Recipes that produce models.")
    commands = whole.add_subparsers(dest="command", required=True)
    texts = commands.add_parser(
        "texts",
        help="WikiText-2 and BOLD's Wikipedia sentences as files of texts",
        description="Write wikitext-valid.txt, wikitext-test.txt and bold-wikipedia.txt, one text a line.",
    )
    texts.add_argument("--data", required=True, type=Path, help="folder that holds wikitext-2/ and bold/wikipedia/")
    texts.add_argument("--output", required=True, type=Path, metavar="FOLDER", help="where the files go")
    texts.set_defaults(run=run_texts)
    distill = commands.add_parser(
        "distill",
        help="a grid of students of a teacher (Hosseini et al. 2023)",
        description="Train a student for each depth and width: language modelling, then the teacher's soft targets. "
        "A student is a folder that Plumbline enters as any model. The same command again goes on where it stopped.",
    )
    distill.add_argument("--teacher", required=True, metavar="REF", help="a hub id, a folder or a GGUF file")
    distill.add_argument("--revision", help="commit, branch or tag of a hub model (default: main, as it is now)")
    distill.add_argument("--layers", required=True, type=int, nargs="+", metavar="N", help="depths")
    distill.add_argument("--hidden", required=True, type=int, nargs="+", metavar="N", help="widths, multiples of 64")
    distill.add_argument(
        "--texts", required=True, type=Path, nargs="+", metavar="FILE", help="one text a line, or .jsonl, or .json"
    )
    distill.add_argument("--output", required=True, type=Path, metavar="FOLDER", help="where the students go")
    add_settings(distill, Distillation)
    distill.set_defaults(run=run_distill)
    measure = commands.add_parser(
        "measure",
        help="safety scores and perplexities of a grid, and whether depth and width move them",
        description="Write a CSV with a row for each model, and print Spearman's correlations of depth, width and "
        "parameters with the safety scores and the perplexity, with 95% intervals.",
    )
    measure.add_argument(
        "--models", required=True, type=Path, nargs="+", metavar="FOLDER", help="the students that `distill` made"
    )
    measure.add_argument(
        "--sentences", required=True, type=Path, metavar="FILE", help="labelled sentences, as toxiGen.json"
    )
    measure.add_argument("--texts", required=True, type=Path, metavar="FILE", help="texts to give the perplexity of")
    measure.add_argument(
        "--share", type=float, default=1.0, help="of the sentences of each demographic and label (default: %(default)s)"
    )
    measure.add_argument("--output", required=True, type=Path, metavar="FILE", help="the CSV")
    measure.set_defaults(run=run_measure)
    corpora = commands.add_parser(
        "corpora",
        help="corpora that differ in one category of a lexicon, and such that do not",
        description="Write plain.txt, marked.txt (the same texts, each with a term of the category), half1.txt (as "
        "plain.txt) and half2.txt (other texts): what a metric is to tell apart after `finetune`, and what not.",
    )
    corpora.add_argument(
        "--texts", required=True, type=Path, metavar="FILE", help="one text a line, or .jsonl, or .json"
    )
    corpora.add_argument("--lexicon", type=Path, metavar="FOLDER", help="(default: Plumbline's starter lexicon)")
    corpora.add_argument("--category", required=True, help="of the lexicon, as hostility")
    corpora.add_argument("--count", type=int, default=400, metavar="N", help="texts of a corpus (default: %(default)s)")
    corpora.add_argument("--shortest", type=int, default=100, help="characters of a text (default: %(default)s)")
    corpora.add_argument("--seed", type=int, default=0, help="of texts, terms and places (default: %(default)s)")
    corpora.add_argument("--output", required=True, type=Path, metavar="FOLDER", help="where the corpora go")
    corpora.set_defaults(run=run_corpora)
    finetune = commands.add_parser(
        "finetune",
        help="two models of one, fine-tuned on two corpora (Snoswell et al. 2023)",
        description="Clean two corpora alike, fine-tune the model on each, and report how far apart they lie. "
        "The same command again goes on where it stopped.",
    )
    finetune.add_argument("--model", required=True, metavar="REF", help="a causal model: a hub id or a folder")
    finetune.add_argument("--revision", help="commit, branch or tag of a hub model (default: main, as it is now)")
    finetune.add_argument(
        "--corpus", required=True, type=Path, action="append", metavar="FILE", help="one text a line; give it twice"
    )
    finetune.add_argument("--output", required=True, type=Path, metavar="FOLDER", help="where models and report go")
    add_settings(finetune, FineTuning)
    finetune.set_defaults(run=run_finetune)
    return whole


def add_settings(command: argparse.ArgumentParser, settings: type) -> None:
    """An option for each field."""
    for field in fields(settings):
        option = f"--{field.name.replace('_', '-')}"
        suffix = "" if field.default is None else " (default: %(default)s)"
        help_text = f"{field.metadata['help']}{suffix}"
        if field.type is bool:
            command.add_argument(option, action=argparse.BooleanOptionalAction, default=field.default, help=help_text)
        else:
            command.add_argument(option, type=TYPES[field.type], default=field.default, help=help_text)  # type: ignore[index]


def read_settings(args: argparse.Namespace, settings: type) -> Any:
    """The settings that were given. Raises Refused."""
    return settings(**{field.name: getattr(args, field.name) for field in fields(settings)})


def run_texts(args: argparse.Namespace) -> None:
    """Write files of texts."""
    from scoring.training.corpus import write_texts

    for path in write_texts(args.data, args.output):
        print(path)  # noqa: T201


def run_distill(args: argparse.Namespace) -> None:
    """Make the students that are missing."""
    settings = read_settings(args, Distillation)
    from scoring.training.distillation import distil

    for folder in distil(
        args.teacher, args.layers, args.hidden, args.texts, args.output, settings, revision=args.revision
    ):
        print(folder)  # noqa: T201


def run_measure(args: argparse.Namespace) -> None:
    """Measure a grid."""
    from scoring.training.grid import correlate, measure_grid, write_figures

    figures = []
    for row in measure_grid(args.models, args.sentences, args.texts, args.share):
        figures.append(row)
        write_figures(figures, args.output)
    for line in correlate(figures):
        print(line)  # noqa: T201


def run_corpora(args: argparse.Namespace) -> None:
    """Write corpora of which it is known how they differ."""
    from scoring.scorers import find_lexicon, read_lexicon
    from scoring.training.probe_corpora import write_probe_corpora

    lexicon = read_lexicon(args.lexicon or find_lexicon("starter"))
    for path in write_probe_corpora(
        args.texts, lexicon, args.category, args.output, count=args.count, shortest=args.shortest, seed=args.seed
    ):
        print(path)  # noqa: T201


def run_finetune(args: argparse.Namespace) -> None:
    """Make the models of a pair that are missing, and compare them."""
    settings = read_settings(args, FineTuning)
    from scoring.training.finetuning import finetune_pair

    print(finetune_pair(args.model, args.corpus, args.output, settings, revision=args.revision))  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
