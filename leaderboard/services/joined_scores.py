"""Scores of the same continuations by two scorers, or by one scorer at two times."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from leaderboard.models import Artefact, MetricVersion, Scoring, Work, not_held, ranked_now
from leaderboard.services import artefacts
from scoring.artefacts import SCORE
from scoring.metrics import agreement
from scoring.metrics.formulas import attributes_of, values_of
from scoring.row_selection import column_names, read_columns

Pair = tuple[Scoring, Scoring]
TEXT = ["id", "index"]  # which continuation of a run


def shared_scorings(first: MetricVersion, second: MetricVersion) -> list[Pair]:
    """The entries of both versions that were scored from one and the same run, by model; in one query.

    None where a version has no scores of texts: published figures, and metrics that ask no scorer.
    """
    if not all(version.measured and version.asked_scorer for version in (first, second)):
        return []
    scorings = (
        Scoring.objects.filter(metric_version__in=[first, second], state=Work.State.DONE, run__isnull=False)
        .filter(ranked_now("model__"), not_held())
        .select_related("model", "artefact")
        .order_by("model__name", "pk")
    )
    by_run: dict[tuple[int, int | None], Scoring] = {
        (scoring.metric_version_id, scoring.run_id): scoring for scoring in scorings
    }
    runs = dict.fromkeys(run for _, run in by_run)
    both = ((by_run.get((first.pk, run)), by_run.get((second.pk, run))) for run in runs)
    return [(one, other) for one, other in both if one and other]


def join_scores(pair: Pair, most: int | None = None) -> tuple[agreement.Scoring, agreement.Scoring]:
    """Both scorings' scores by attribute, of the continuations that both have; `most` of them at most, evenly spaced.

    Raises FileNotFoundError where an artefact is gone.
    """
    first, second = join_tables(pair, most)
    return by_attribute(first), by_attribute(second)


def join_tables(pair: Pair, most: int | None = None) -> tuple[pa.Table, pa.Table]:
    """The rows of `join_scores` as tables, whose keys are equal."""
    first, second = (load_scores(scoring.artefact) for scoring in pair)
    if not all(first[name].equals(second[name]) for name in TEXT):
        rows = number_rows(first, "first").join(number_rows(second, "second"), TEXT, join_type="inner").sort_by("first")
        first, second = first.take(rows["first"]), second.take(rows["second"])
    if most is not None and most < first.num_rows:
        positions = np.linspace(0, first.num_rows - 1, most).astype(np.int64)
        first, second = first.take(positions), second.take(positions)
    return first, second


def load_scores(artefact: Artefact | None) -> pa.Table:
    """The keys and scores of an artefact, without its other columns. Raises what `artefacts.load` does."""
    if artefact is None:
        return artefacts.load(artefact)
    with artefacts.open_whole(artefact) as file:
        names = [name for name in column_names(file, artefact.kind) if name.startswith(SCORE)]
        return read_columns(file, artefact.kind, [*TEXT, *names])


def number_rows(scores: pa.Table, name: str) -> pa.Table:
    """The keys of `scores` with the number of each row."""
    return scores.select(TEXT).append_column(name, pa.array(np.arange(scores.num_rows)))


def by_attribute(scores: pa.Table) -> agreement.Scoring:
    """The columns of a `scores` table."""
    return dict(zip(attributes_of(scores), values_of(scores).T, strict=True))


def align_names(first: agreement.Scoring, second: agreement.Scoring) -> tuple[agreement.Scoring, agreement.Scoring]:
    """What two scorings both have, by the second one's names."""
    pairs: Sequence[tuple[str, str]] = agreement.matching_attributes(list(first), list(second))
    return {name: first[was] for was, name in pairs}, {name: second[name] for _, name in pairs}
