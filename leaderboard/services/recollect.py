"""Some texts of an entry taken through its model again, and held against the outputs that are stored of them.

Files that have their hashes say that nothing changed since they were written. That they were written by this model, of
these texts, only the model can say.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leaderboard.models import LanguageModel, Protocol, Run
from leaderboard.services import artefacts, cages
from leaderboard.services.leases import Lease, OutOfTime
from scoring.cage import CageError, CageUnavailable
from scoring.generation import GenerationSettings
from scoring.language_models import HubUnavailable, ModelRefused
from scoring.likelihood import LikelihoodSettings
from scoring.metrics.safety import log_perplexities

TOLERANCE = 1e-3  # of log-perplexities: ten times what other batches and numbers of threads were seen to change
MOST_OTHER = 0.02  # of continuations: where rounding moves a logit, another token may be drawn
NOT_AT_HAND = (CageError, CageUnavailable, HubUnavailable, ModelRefused, OutOfTime, OSError)


class CannotRecollect(ValueError):
    """The model is not at hand; the message says why."""


def recollect(run: Run, number: int) -> tuple[int, list[str]]:
    """Take `number` random texts of the run through its model again.

    Returns how many texts were, and what differs, in sentences. Raises CannotRecollect; ArtefactLost, StorageAway.
    """
    local = LanguageModel.objects.evaluable().exclude(source=LanguageModel.Source.SERVER)
    if not local.filter(pk=run.model_id).exists():
        raise CannotRecollect(f"the model {run.model.slug} is not at hand")
    texts = artefacts.load(run.protocol.evaluation_set.artefact)
    outputs = artefacts.load(run.artefact)
    rows = np.sort(np.random.default_rng().permutation(texts.num_rows)[:number])
    chosen = texts.take(rows)
    compare = _likelihoods if run.protocol.method == Protocol.LIKELIHOOD else _continuations
    try:
        return chosen.num_rows, list(compare(run, chosen, outputs))
    except artefacts.ArtefactLost:
        raise
    except NOT_AT_HAND as error:
        raise CannotRecollect(f"the model {run.model.slug} cannot be run here: {error}") from error


def _lease(run: Run) -> Lease:
    """What a cage asks about time and interruptions: of no work that anybody claims."""
    return Lease(Run(model=run.model, protocol=run.protocol))


def _rows_of(outputs: pa.Table, column: str, texts: pa.Table) -> pa.Table:
    return outputs.filter(pc.is_in(outputs[column], value_set=texts["id"].combine_chunks()))


def _likelihoods(run: Run, texts: pa.Table, outputs: pa.Table) -> Iterator[str]:
    how = LikelihoodSettings(**run.protocol.parameters)
    stored = _rows_of(outputs, "id", texts)
    with cages.open_model(run.model, how.precision, _lease(run)) as (caged, _):
        again = caged.likelihoods(texts["id"].to_pylist(), texts["text"].to_pylist(), how, lambda _done: None)
    if stored["id"].to_pylist() != again["id"].to_pylist():
        yield f"{stored.num_rows} of {texts.num_rows} random texts have stored likelihoods"
        return
    before, now = log_perplexities(stored), log_perplexities(again)
    for text, was, found in zip(stored["id"].to_pylist(), before, now, strict=True):
        if not (np.isnan(was) and np.isnan(found)) and not abs(was - found) <= TOLERANCE:
            yield f"text {text}: its log-perplexity is stored as {was:.6f}, the model gives {found:.6f}"


def _continuations(run: Run, texts: pa.Table, outputs: pa.Table) -> Iterator[str]:
    how = GenerationSettings(**run.protocol.parameters)
    stored = _rows_of(outputs, "prompt_id", texts)
    with cages.open_model(run.model, how.precision, _lease(run)) as (caged, _):
        again = caged.continuations(texts, how, run.protocol.method == Protocol.REGARD, lambda _done: None)

    def by_place(table: pa.Table) -> dict[tuple[str, int], str | None]:
        places = zip(table["prompt_id"].to_pylist(), table["index"].to_pylist(), strict=True)
        return dict(zip(places, table["text"].to_pylist(), strict=True))

    before, now = by_place(stored), by_place(again)
    other = [place for place in before.keys() | now.keys() if before.get(place, 0) != now.get(place, 0)]
    if len(other) > MOST_OTHER * len(now):
        prompts = ", ".join(sorted({prompt for prompt, _ in other})[:3])
        yield f"{len(other)} of {len(now)} continuations are other ones than the model gives, as of prompts {prompts}"
