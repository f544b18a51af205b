"""Run some texts of an entry through its model again and compare the result with the stored outputs.

Hashes show that a file has not changed since it was written. Only the model can show that it wrote the file.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leaderboard.models import LanguageModel, Run
from leaderboard.services import artefacts, cages
from leaderboard.services.leases import Lease, OutOfTime
from scoring.cage import CageError, CageUnavailable
from scoring.language_models import HubUnavailable, ModelRefused
from scoring.refusals import Refused

NOT_AT_HAND = (CageError, CageUnavailable, HubUnavailable, ModelRefused, OutOfTime, OSError)


class CannotRecollect(Refused):
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
    sample = texts.take(rows)
    try:
        return sample.num_rows, list(_compare(run, sample, outputs))
    except artefacts.ArtefactLost:
        raise
    except NOT_AT_HAND as error:
        raise CannotRecollect(f"the model {run.model.slug} cannot be run here: {error}") from error


def _lease(run: Run) -> Lease:
    """What a cage asks about time and interruptions: of no work that anybody claims."""
    return Lease(Run(model=run.model, protocol=run.protocol))


def _compare(run: Run, texts: pa.Table, outputs: pa.Table) -> Iterator[str]:
    strategy = run.protocol.outputs
    options = run.output_settings
    stored_outputs = outputs.filter(pc.is_in(outputs[strategy.key], value_set=texts["id"].combine_chunks()))
    with cages.open_model(run.model, options.precision, _lease(run)) as (caged_model, _):
        new_outputs = strategy.collect(caged_model, texts, options, lambda _count: None)
    yield from strategy.differences(stored_outputs, new_outputs, options.precision)
