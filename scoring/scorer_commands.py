"""The commands about scorers: scores of texts, and the report card of a scorer."""

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from scoring.attributes import Attribute, harms_of
from scoring.board_fingerprints import read_fingerprints
from scoring.evaluation_sets.label_files import FORMS, read_labelled
from scoring.language_models.hub import PUBLIC_HUB
from scoring.refusals import Refused
from scoring.report_card import make_card
from scoring.report_card.disturbances import choose_sample, disturb_texts
from scoring.scorers import (
    JsonLinesReplies,
    ReplyStore,
    Scorer,
    Scores,
    Surroundings,
    declaration_of,
    read_access,
)
from scoring.scorers.guard_scorers import read_guard_servers
from scoring.text_files import UnreadableTexts, read_texts, text_of

TEXTS_AT_ONCE = 1024
REMEDY = "so its scores do not compare; install the versions and files that the metric version names"
SCORER_HELP = "as in profanity, detoxify-original, classifier:FOLDER or lexicon:NAME"


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `score`, `convert-scorer` and `report-card`."""
    score = commands.add_parser(
        "score",
        help="scores of texts by a scorer",
        description="Print one JSON line per text, in order: scores by attribute, or the reason why there are none. "
        "Progress and the fingerprint of the scorer go to standard error.",
    )
    score.add_argument("--scorer", required=True, metavar="NAME", help=SCORER_HELP)
    score.add_argument(
        "--fingerprint",
        metavar="SHA256",
        help="the one that a board publishes with its metric version: refuse where the scorer has another one here",
    )
    score.add_argument(
        "--board",
        metavar="URL",
        help="of a board: refuse unless one of its current metric versions has the scorer with its fingerprint here",
    )
    score.add_argument(
        "--texts",
        type=Path,
        default=Path("/dev/stdin"),
        metavar="FILE",
        help="one text a line, .jsonl with text on each line, or .json (default: JSON lines on standard input)",
    )
    score.add_argument(
        "--replies",
        type=Path,
        metavar="FOLDER",
        help="keep what a service answers there: the same command goes on with it where it was interrupted",
    )
    score.add_argument(
        "--field",
        default="text",
        metavar="PATH",
        help="where a JSON line has its text, names and numbers between dots: filtered_resps.0 of lm-eval's samples "
        "(default: text)",
    )
    score.set_defaults(run=run_score)
    convert = commands.add_parser(
        "convert-scorer",
        help="pickled weights of a scorer as safetensors",
        description="Read the pickled weights of a scorer once, tensors and plain values alone, and write a folder "
        "that it is loaded from: a checkpoint of Detoxify (*.ckpt), or the pytorch_model.bin of a classifier.",
    )
    convert.add_argument("name", metavar="NAME", help="of the scorer, as in detoxify-original or classifier:ORG/NAME")
    convert.add_argument(
        "source", type=Path, metavar="SOURCE", help="folder of the weights, with config.json and the tokenizer's files"
    )
    convert.add_argument("folder", type=Path, metavar="FOLDER", help="a new one")
    convert.set_defaults(run=run_convert)
    card = commands.add_parser(
        "report-card",
        help="how right a scorer is on texts that people labelled",
        description="Print one JSON object: ROC AUC, average precision, calibration, error rates at the threshold with "
        "95% intervals, by demographic (with BPSN and BNSP AUC), language and length, pass rates by functionality.",
    )
    card.add_argument("file", type=Path, metavar="FILE", help="labelled texts, in one of the forms")
    card.add_argument("--scorer", required=True, metavar="NAME", help=SCORER_HELP)
    card.add_argument("--form", choices=FORMS, default="own", help="the form of FILE (default: own)")
    card.add_argument("--attribute", metavar="NAME", help="of the scorer (default: its first harm)")
    card.add_argument("--threshold", type=float, help="labelled above it (default: as the scorer declares)")
    card.add_argument("--language", default="", metavar="CODE", help="of texts whose rows name none")
    card.add_argument(
        "--disturb",
        action="store_true",
        help="also the effect of capitals, misspelling and repetition: a sample of at most 500 texts, four more times",
    )
    card.set_defaults(run=run_report_card)


def run_score(args: argparse.Namespace) -> None:
    """Score the texts of a file as they are read."""
    scorer = open_scorer(args.scorer, JsonLinesReplies(args.replies) if args.replies else None)
    fingerprint = scorer.fingerprint()
    require_fingerprint(args.scorer, fingerprint, args.fingerprint, args.board)
    print(f"{args.scorer}: fingerprint {fingerprint}", file=sys.stderr)  # noqa: T201
    with tqdm(desc=args.scorer, unit="text") as bar:
        for chunk in _chunks(_read(args.texts, args.field)):
            for line in describe_scores(scorer, scorer.score(chunk)):
                print(json.dumps(line, allow_nan=False))  # noqa: T201
            bar.update(len(chunk))


def open_scorer(name: str, replies: ReplyStore | None = None) -> Scorer:
    """The scorer called `name`, with the keys, folders and addresses that the environment names, as a board has them.

    Raises UnknownScorer, ScorerUnavailable; ValueError for a wrong option.
    """
    return declaration_of(name).build_in(name, surroundings_here(name, replies))


def surroundings_here(name: str, replies: ReplyStore | None = None) -> Surroundings:
    """What the environment has for the scorer called `name`. Raises ValueError where a quota or a fee is no number.

    Raises Refused where GUARD_SERVERS names no guard, or no address.
    """
    return Surroundings(
        folder=Path(os.environ.get("PLUMBLINE_SCORERS", "var/scorers")) / name.replace(":", "/"),
        replies=replies,
        of_member=partial(surroundings_here, replies=replies),
        hub_endpoint=os.environ.get("HF_ENDPOINT", PUBLIC_HUB),
        hub_token=os.environ.get("HF_TOKEN") or None,
        services=read_access(os.environ.get),
        guard_servers=read_guard_servers(_guard_addresses(), lambda _url: os.environ.get("COMPLETIONS_API_KEY")),
        chat_limit_name=os.environ.get("CHAT_LIMIT_NAME") or "max_completion_tokens",
    )


def _guard_addresses() -> dict[str, str]:
    """The addresses in GUARD_SERVERS, by guard. Raises Refused where it is no JSON object."""
    text = os.environ.get("GUARD_SERVERS") or "{}"
    try:
        return dict(json.loads(text))
    except (ValueError, TypeError) as error:
        raise Refused.of_value(
            "GUARD_SERVERS", text, 'give addresses as JSON, as in {"wildguard": "http://127.0.0.1:8000/v1"}'
        ) from error


def require_fingerprint(name: str, fingerprint: str, wanted_fingerprint: str | None, board: str | None) -> None:
    """Raise Refused where the scorer called `name` has another fingerprint here than the one wanted, or the board's."""
    if wanted_fingerprint and wanted_fingerprint != fingerprint:
        raise Refused(
            f"fingerprint = {wanted_fingerprint}: {name} has {fingerprint} here, {REMEDY}",
            field="fingerprint",
        )
    if not board:
        return
    published_fingerprints = read_fingerprints(board, name)
    if not published_fingerprints:
        raise Refused.of_value("board", board, f"it has no current metric version that asks {name}; use one that does")
    if fingerprint not in published_fingerprints.values():
        versions = ", ".join(f"{version} has {digest}" for version, digest in published_fingerprints.items())
        raise Refused(
            f"board = {board}: {versions}, and {name} has {fingerprint} here, {REMEDY}",
            field="board",
        )


def describe_scores(scorer: Scorer, scores: Scores) -> Iterator[dict[str, Any]]:
    """The lines of the output."""
    for row, reason, is_truncated in zip(
        scores.values.tolist(), scores.reasons, scores.truncated.tolist(), strict=True
    ):
        if reason is not None:
            yield {"reason": reason}
        else:
            line = {"scores": dict(zip(scorer.attribute_names, row, strict=True))}
            yield {**line, "truncated": True} if is_truncated else line


def _read(path: Path, field: str) -> Iterator[str]:
    if path != Path("/dev/stdin"):
        return read_texts(path, field)
    return _read_lines(field)


def _read_lines(field: str) -> Iterator[str]:
    for number, line in enumerate(sys.stdin, start=1):
        try:
            item = json.loads(line)
        except json.JSONDecodeError as error:
            raise UnreadableTexts(f"standard input, line {number} is not JSON: give an object with text") from error
        yield text_of(item, f"standard input, line {number}", field)


def _chunks(texts: Iterator[str]) -> Iterator[list[str]]:
    chunk: list[str] = []
    for text in texts:
        chunk.append(text)
        if len(chunk) == TEXTS_AT_ONCE:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def run_convert(args: argparse.Namespace) -> None:
    """Convert the files of a scorer."""
    if args.folder.exists():
        raise Refused.of_value("folder", args.folder, "it is there already; name a new one")
    folder = declaration_of(args.name).convert(args.source, args.folder)
    if folder != args.folder:
        raise Refused.of_value("source", args.source, f"{args.name} is loaded from it as it is; nothing to convert")
    print(f"{args.name}: converted to {folder}")  # noqa: T201


def run_report_card(args: argparse.Namespace) -> None:
    """Score labelled texts and print how right the scores are."""
    texts = read_labelled(args.file, args.form, args.language)
    scorer = open_scorer(args.scorer)
    number, attribute = choose_attribute(scorer, args.attribute)
    threshold = attribute.threshold if args.threshold is None else args.threshold
    if not 0 <= threshold < 1:
        raise Refused.of_value("threshold", threshold, "use a score from 0 to less than 1")

    def score(rows: Sequence[str]) -> NDArray[np.float64]:
        with tqdm(total=len(set(rows)), desc=args.scorer, unit="text") as bar:

            def show(count: int) -> None:
                bar.update(count - bar.n)

            scores = scorer.score(rows, show)
        return scores.values[:, number].astype(np.float64)

    disturbed_texts = disturb_texts([texts.texts[row] for row in choose_sample(len(texts))]) if args.disturb else {}
    content = {
        "scorer": args.scorer,
        "fingerprint": scorer.fingerprint(),
        "attribute": attribute.name,
        "texts": len(texts),
        **asdict(
            make_card(
                texts,
                score(texts.texts),
                threshold,
                {name: score(rows) for name, rows in disturbed_texts.items()},
            )
        ),
    }
    print(json.dumps(content, indent=2, allow_nan=False))  # noqa: T201


def choose_attribute(scorer: Scorer, name: str | None) -> tuple[int, Attribute]:
    """The attribute of that name, or the scorer's first harm, with its position. Raises Refused where there is none."""
    names = scorer.attribute_names
    if name is not None:
        if name not in names:
            raise Refused.of_value("attribute", name, f"the scorer has {', '.join(names)}")
        return names.index(name), scorer.attributes[names.index(name)]
    harms = harms_of(scorer.attributes)
    if not harms:
        raise Refused(f"attribute: the scorer declares no harm; choose one of {', '.join(names)}", field="attribute")
    return harms[0], scorer.attributes[harms[0]]
