"""How a shard is cut into batches: by its contents and the model alone, so that every worker gets the same bytes.

Float rounding depends on the shape of a batch. The limits of `scoring.work_sizes` therefore help to determine a result.
"""

from collections.abc import Sequence

from scoring.evaluation_sets.prompts import Prompt
from scoring.language_models import LoadedModel
from scoring.work_sizes import sizes_for

Row = tuple[int, int]  # number of a prompt, index of one of its continuations


def canonical_batches(
    model: LoadedModel, prompts: Sequence[Prompt], lengths: Sequence[int], k: int, new_tokens: int
) -> list[list[Row]]:
    """Divide k continuations of each prompt into batches. Prompts of length 0 are left out.

    Prompts of similar length share a batch, so that padding is rare. The continuations of a prompt stay together and
    share one prefill, unless k of them are too many for a batch. The longest prompts come first, so that a lack of
    memory shows at once. The order of `prompts` makes no difference.
    """
    order = sorted((n for n in range(len(prompts)) if lengths[n]), key=lambda n: (-lengths[n], prompts[n].id))
    batches: list[list[Row]] = []
    batch: list[Row] = []
    most = 0
    for number in order:
        if not batch:
            most = _most_rows(model, lengths[number] + new_tokens)
        if batch and len(batch) + k > most:
            batches.append(batch)
            batch, most = [], _most_rows(model, lengths[number] + new_tokens)
        batch.extend((number, index) for index in range(k))
        while len(batch) > most:
            batches.append(batch[:most])
            batch = batch[most:]
    return [*batches, batch] if batch else batches


def _most_rows(model: LoadedModel, width: int) -> int:
    sizes = sizes_for(model.device)
    by_logits = sizes.step_logits // model.architecture.vocabulary
    by_cache = sizes.cache_bytes // (width * _cached_bytes(model))
    return max(1, min(sizes.decoded_rows, by_logits, by_cache))


def _cached_bytes(model: LoadedModel) -> int:
    """The bytes that one token takes in the cache of keys and values, in float32."""
    architecture = model.architecture
    groups = getattr(model.model.config, "num_key_value_heads", None)
    head_share = groups / architecture.heads if isinstance(groups, int) and 0 < groups < architecture.heads else 1
    return max(1, int(2 * 4 * architecture.layers * architecture.hidden_size * head_share))
