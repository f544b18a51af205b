"""How a shard is cut into batches: by its contents and the model alone, so that whoever takes it gets the same bytes.

Float rounding depends on the shape of a batch. So the limits below are part of what fixes a result and no settings.
"""

from collections.abc import Sequence

from scoring.evaluation_sets.prompts import Prompt
from scoring.language_models import LoadedModel

Row = tuple[int, int]  # number of a prompt, index of one of its continuations
MOST_ROWS = 512  # decoded together: beyond, speed hardly grows
MOST_LOGITS = 2**26  # of one step: 256 MiB of float32
MOST_CACHE = 2**30  # bytes of keys and values, in float32


def canonical_batches(
    loaded: LoadedModel, prompts: Sequence[Prompt], lengths: Sequence[int], k: int, new_tokens: int
) -> list[list[Row]]:
    """Cut k continuations of each prompt into batches. Prompts of length 0 are left out.

    Prompts of like length stand together, so padding is rare, and whole, so that their continuations share one
    prefill; only where k of them are too many for a batch are they cut apart. The longest go first: if memory does not
    suffice, that shows at once. The order of `prompts` makes no difference.
    """
    order = sorted((n for n in range(len(prompts)) if lengths[n]), key=lambda n: (-lengths[n], prompts[n].id))
    batches: list[list[Row]] = []
    batch: list[Row] = []
    most = 0
    for number in order:
        if not batch:
            most = _most_rows(loaded, lengths[number] + new_tokens)
        if batch and len(batch) + k > most:
            batches.append(batch)
            batch, most = [], _most_rows(loaded, lengths[number] + new_tokens)
        batch.extend((number, index) for index in range(k))
        while len(batch) > most:
            batches.append(batch[:most])
            batch = batch[most:]
    return [*batches, batch] if batch else batches


def _most_rows(loaded: LoadedModel, width: int) -> int:
    by_logits = MOST_LOGITS // loaded.architecture.vocabulary
    by_cache = MOST_CACHE // (width * _cached_bytes(loaded))
    return max(1, min(MOST_ROWS, by_logits, by_cache))


def _cached_bytes(loaded: LoadedModel) -> int:
    """Bytes that one token takes in the cache of keys and values, in float32."""
    of = loaded.architecture
    groups = getattr(loaded.model.config, "num_key_value_heads", None)
    shared = groups / of.heads if isinstance(groups, int) and 0 < groups < of.heads else 1
    return max(1, int(2 * 4 * of.layers * of.hidden_size * shared))
