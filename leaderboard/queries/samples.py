"""A few of a model's texts, chosen by their values: read from the artefacts, without the millions of others."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, BinaryIO, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leaderboard.models import Artefact, Scoring
from leaderboard.queries.likelihoods import GONE, values_and_texts
from leaderboard.services.artefacts import open_whole
from scoring.artefacts import SCORE, ArtefactError
from scoring.metrics.kinds import Listing
from scoring.metrics.outputs import Answers, Continuations
from scoring.refusals import Refused
from scoring.row_selection import column_names, read_columns, read_rows, rows_in_order

T = TypeVar("T")
PAGE, MOST = 10, 200  # samples on a page, and on all pages
SPREAD_OVER = 50  # samples from the first to the last
HIGHEST, LOWEST, SPREAD = "highest", "lowest", "spread"
# What is said of an answer of a chat, by its column.
OF_ANSWERS = {
    "refused": "a refusal",
    "reasoned": "its reasoning is left out",
    "echoed": "the prompt that it repeated is left out",
}
FINISHED = {"stop": "ended by the model", "length": "cut at the most tokens"}


@dataclass(frozen=True, slots=True)
class SampleText:
    """A text that the model made, or a sentence whose likelihood it gave.

    place: from 1, among all that have a value, in the order asked for. texts: each with its heading, "" where it needs
    none. about: what else is known, in words.
    """

    place: int
    value: float
    texts: list[tuple[str, str]]
    about: list[str]


@dataclass(frozen=True, slots=True)
class Samples:
    """A page of samples; `of` texts have a value, and `missing` have none; all pages together list `listed`."""

    samples: list[SampleText]
    of: int
    missing: int
    listed: int

    @property
    def pages(self) -> int:
        """At least one."""
        return max(1, -(-self.listed // PAGE))


def attributes(scoring: Scoring) -> list[str]:
    """What the scorer judges, in its order; nothing where it is of likelihoods. Raises Refused."""
    if not scoring.metric_version.asked_scorer:
        return []
    names = _read(scoring.artefact, lambda file: column_names(file, "scores"))
    return [name.removeprefix(SCORE) for name in names if name.startswith(SCORE)]


def find_listing(scoring: Scoring) -> Listing:
    """What is listed of a scoring whose texts no scorer judged. Raises Refused."""
    values, texts = values_and_texts(scoring)
    try:
        return scoring.metric_version.metric.formula.list_texts(values, texts)
    except ValueError as error:
        raise Refused(str(error)) from error


def samples(scoring: Scoring, attribute: str, order: str, page: int, listing: Listing | None) -> Samples:
    """A page of the texts of a scoring: of continuations by `attribute`, else what its `listing` says.

    The same every time: equal values stand in the order of the texts. A page beyond the last has no samples. Raises
    Refused.
    """
    if listing is None:
        column = _read(scoring.artefact, lambda file: read_columns(file, "scores", [SCORE + attribute]))
        values = column[SCORE + attribute].to_numpy()
    else:
        values = listing.values
    count = int(np.isfinite(values).sum())
    places = places_of(order, count)
    page_places = places[(page - 1) * PAGE : page * PAGE]
    rows = rows_in_order(values, page_places, order != LOWEST)
    numbered_values = [(place + 1, float(values[row])) for place, row in zip(page_places, rows, strict=True)]
    if listing is None:
        return Samples(_continuations(scoring, rows, numbered_values), count, len(values) - count, len(places))
    descriptions = zip(numbered_values, listing.texts(rows), strict=True)
    page_samples = [SampleText(place, value, texts, notes) for (place, value), (texts, notes) in descriptions]
    return Samples(page_samples, count, listing.missing, len(places))


def places_of(order: str, count: int) -> list[int]:
    """Which places of `count` are shown in that order, from 0: the first MOST, or some evenly from first to last."""
    if order != SPREAD:
        return list(range(min(count, MOST)))
    evenly: list[int] = np.unique(np.linspace(0, count - 1, min(count, SPREAD_OVER)).round().astype(int)).tolist()
    return evenly


def _continuations(scoring: Scoring, rows: list[int], numbered_values: list[tuple[int, float]]) -> list[SampleText]:
    """What the model made of its prompts, in those rows."""
    outputs = scoring.run.artefact if scoring.run else None
    kind = outputs.kind if outputs else Continuations.artefact
    columns = ["prompt_id", "index", "text", "n_tokens", "finish", *(OF_ANSWERS if kind == Answers.artefact else {})]
    continuations = _read(outputs, lambda file: read_rows(file, kind, rows, columns)).to_pylist()
    score_keys = _read(scoring.artefact, lambda file: read_rows(file, "scores", rows, ["id", "index"])).to_pylist()
    if [(row["prompt_id"], row["index"]) for row in continuations] != [(row["id"], row["index"]) for row in score_keys]:
        raise Refused("The stored scores are of other texts than the stored outputs: they are not shown.")
    prompts = _texts(scoring, "prompts", [row["prompt_id"] for row in continuations], ["text"])
    return [
        SampleText(
            place,
            value,
            [
                ("Prompt", prompts.get(row["prompt_id"], {}).get("text", "")),
                ("Continuation", row["text"] or ""),
            ],
            [
                f"continuation {row['index'] + 1} of its prompt",
                *([] if row["n_tokens"] is None else [f"{row['n_tokens']} tokens"]),
                FINISHED.get(row["finish"], "how it ended is not known"),
                *(words for name, words in OF_ANSWERS.items() if row.get(name)),
            ],
        )
        for (place, value), row in zip(numbered_values, continuations, strict=True)
    ]


def _texts(scoring: Scoring, kind: str, ids: list[str], columns: list[str]) -> dict[str, dict[str, Any]]:
    """Rows of the evaluation set by their ids."""
    artefact = scoring.metric_version.protocol.evaluation_set.artefact
    table = _read(artefact, lambda file: read_columns(file, kind, ["id", *columns]))
    matches = table.filter(pc.is_in(table["id"], value_set=pa.array(ids, pa.string())))
    return {row["id"]: row for row in matches.to_pylist()}


def _read(artefact: Artefact | None, reader: Callable[[BinaryIO], T]) -> T:
    """What `reader` makes of a stored file. Raises Refused."""
    if artefact is None:
        raise Refused(GONE)
    try:
        with open_whole(artefact) as file:
            return reader(file)
    except (ArtefactError, FileNotFoundError) as error:
        raise Refused(GONE) from error
