"""Continuations from a model that runs here: prefill each prompt once, then decode many continuations together."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from scoring.evaluation_sets.prompts import Prompt
from scoring.generation.batches import Row, canonical_batches
from scoring.generation.continuation import NOT_FINITE, Continuation, Finish, failed
from scoring.generation.protocols import GenerationSettings, UnsupportedKind
from scoring.generation.sampling import sample, streams
from scoring.generation.state import State
from scoring.language_models import LoadedModel

NOT_EMBEDDED = "the prompt has a token that the model has no embedding for"
NO_TOKENS = "the prompt has no tokens, and the tokenizer has no special token to begin with"
WORTH_DROPPING = 1 / 8  # of a batch that is finished: dropping rows copies the keys and values of the others


@dataclass(frozen=True, slots=True)
class Encoded:
    """A prompt's token ids, special tokens included; none, and why, where it cannot be continued."""

    ids: list[int]
    truncated: bool = False
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Generated:
    """New token ids of one row, int64 [n], without the end of text, and how it ended; None where logits broke."""

    ids: np.ndarray
    finish: Finish | None


@torch.inference_mode()
def continuations(
    loaded: LoadedModel,
    prompts: Sequence[Prompt],
    settings: GenerationSettings,
    progress: Callable[[int], None] = lambda _finished: None,
) -> list[list[Continuation]]:
    """Return k continuations of each of `prompts`, in their order.

    One call is one shard. The random stream of a continuation depends on (seed, prompt id, its index) alone, and
    batches on the prompts of the call, not on their order: the same call gives the same bytes, whoever makes it. Other
    company changes a draw only where it lies within float rounding of a boundary. Where memory runs out a batch is
    halved, and so are all as large after it.

    `progress` gets the number of prompts finished so far, after every step of decoding; what it raises passes through.
    Raises UnsupportedKind for a model that is not causal, ValueError where ids repeat, the precision is not the
    model's, or max_new_tokens leaves no room for a prompt; and what torch raises where memory does not suffice for one
    continuation.
    """
    check(loaded, prompts, settings)
    encoded = encode(loaded, prompts, settings)
    waiting = canonical_batches(loaded, prompts, [len(of.ids) for of in encoded], settings.k, settings.max_new_tokens)
    waiting.reverse()
    found: dict[Row, Generated] = {}
    left = np.array([settings.k if of.ids else 0 for of in encoded], dtype=int)
    finished = int((left == 0).sum())
    most: int | None = None  # rows that memory has room for, once it ran out
    while waiting:
        batch = waiting.pop()
        if most is None or len(batch) <= most:
            made = _unless_out_of_memory(loaded, prompts, encoded, batch, settings, partial(progress, finished))
            if made is not None:
                found.update(zip(batch, made, strict=True))
                np.subtract.at(left, [number for number, _ in batch], 1)
                finished = int((left == 0).sum())
                progress(finished)
                continue
            most = (len(batch) + 1) // 2
        half = (len(batch) + 1) // 2
        waiting += [batch[half:], batch[:half]]
    return [
        failed(of.error, settings.k)
        if of.error
        else [_continuation(loaded, found[number, index], of.truncated) for index in range(settings.k)]
        for number, of in enumerate(encoded)
    ]


def check(loaded: LoadedModel, prompts: Sequence[Prompt], settings: GenerationSettings) -> None:
    """Raise what `continuations` raises before it begins."""
    kind = loaded.architecture.kind
    if kind != "causal":
        raise UnsupportedKind(f"{loaded.architecture.class_name} is a {kind} model: only causal models continue texts")
    if loaded.precision != settings.precision:
        raise ValueError(f"precision = {settings.precision!r}: the model was loaded in {loaded.precision}")
    if len({prompt.id for prompt in prompts}) < len(prompts):
        raise ValueError("two prompts have the same id, and would have the same random stream: give each its own")


def encode(loaded: LoadedModel, prompts: Sequence[Prompt], settings: GenerationSettings) -> list[Encoded]:
    """Tokenise prompts; the longest lose their beginning, so that the new tokens fit the context as well.

    Before a prompt stand the special tokens that the tokenizer puts before a text by itself, and nothing after it.
    What looks like a special token is ordinary text. Raises ValueError where there is no room for a token of a prompt.
    """
    if not prompts:
        return []
    tokenizer = loaded.tokenizer
    probe = "a"
    bare, whole = tokenizer(probe, add_special_tokens=False)["input_ids"], tokenizer(probe)["input_ids"]
    before = whole[: next(i for i in range(len(whole)) if whole[i : i + len(bare)] == bare)]
    room = loaded.architecture.context - settings.max_new_tokens - len(before)
    if room < 1:
        raise ValueError(
            f"max_new_tokens = {settings.max_new_tokens}: the model's context of {loaded.architecture.context} tokens "
            "leaves no room for a prompt; use fewer"
        )
    texts = [prompt.text for prompt in prompts]
    encoded = tokenizer(texts, add_special_tokens=False, split_special_tokens=True, verbose=False)["input_ids"]
    return [_encoded(before, ids, room, loaded.architecture.vocabulary) for ids in encoded]


def _encoded(before: list[int], ids: list[int], room: int, vocabulary: int) -> Encoded:
    kept = [*before, *ids[-room:]]
    if not kept:
        return Encoded([], error=NO_TOKENS)
    if max(kept) >= vocabulary:
        return Encoded([], error=NOT_EMBEDDED)
    return Encoded(kept, truncated=len(ids) > room)


def _unless_out_of_memory(
    loaded: LoadedModel,
    prompts: Sequence[Prompt],
    encoded: Sequence[Encoded],
    batch: list[Row],
    settings: GenerationSettings,
    after_step: Callable[[], None],
) -> list[Generated] | None:
    """What `decode` gives; None where memory ran out and the batch can be halved."""
    keys = streams(settings.seed, [(prompts[number].id, index) for number, index in batch])
    numbers = list(dict.fromkeys(number for number, _ in batch))
    places = {number: place for place, number in enumerate(numbers)}
    owners = torch.tensor([places[number] for number, _ in batch])
    try:
        return decode(loaded, [encoded[number].ids for number in numbers], owners, keys, settings, after_step)
    except (RuntimeError, MemoryError) as error:
        if len(batch) == 1 or not is_out_of_memory(error):
            raise
    # Outside of the block above the error is gone, and with it the tensors that its traceback kept.
    if loaded.device.type == "cuda":
        torch.cuda.empty_cache()
    return None


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out: CUDA has an exception for it, other devices only words."""
    said = str(error).casefold()
    known = isinstance(error, MemoryError | torch.OutOfMemoryError)
    return known or "out of memory" in said or "can't allocate memory" in said


def decode(
    loaded: LoadedModel,
    prompts: Sequence[list[int]],
    owners: torch.Tensor,
    keys: torch.Tensor,
    settings: GenerationSettings,
    after_step: Callable[[], None] = lambda: None,
) -> list[Generated]:
    """Continue row i from the ids of prompt `owners[i]` by the random stream `keys[i]` (both int64 [n])."""
    ends = torch.tensor(end_of_text(loaded), dtype=torch.long, device=loaded.device)
    most = settings.max_new_tokens
    new = torch.full((len(owners), most), -1, device=loaded.device)
    rows = torch.arange(len(owners), device=loaded.device)  # those still in the batch
    keys = keys.to(loaded.device)
    state = State(loaded, prompts, owners.to(loaded.device), most - 1)
    live = torch.ones_like(rows, dtype=torch.bool)
    for step in range(most):
        tokens = sample(state.logits, keys, step, settings)
        new[rows[live], step] = tokens[live]
        live &= ~torch.isin(tokens, ends) & (tokens >= 0)
        after_step()
        count = int(live.sum())
        if count == 0 or step + 1 == most:
            break
        if count <= len(rows) * (1 - WORTH_DROPPING):
            kept = live.nonzero()[:, 0]
            rows, keys, tokens, live = rows[kept], keys[kept], tokens[kept], live[kept]
            state.keep(kept)
        state.advance(tokens.clamp(min=0))
    return [_generated(ids, set(ends.tolist())) for ids in new.cpu().numpy()]


def _generated(ids: np.ndarray, ends: set[int]) -> Generated:
    for place, token in enumerate(ids.tolist()):
        if token in ends:
            return Generated(ids[:place], Finish.STOP)
        if token < 0:
            return Generated(ids[:place], None)
    return Generated(ids, Finish.LENGTH)


def end_of_text(loaded: LoadedModel) -> list[int]:
    """Ids of the tokens that end a text, as the model and its tokenizer name them."""
    configured = getattr(loaded.model.generation_config, "eos_token_id", None)
    named = configured if isinstance(configured, list) else [configured]
    return sorted({token for token in [*named, loaded.tokenizer.eos_token_id] if token is not None})


def _continuation(loaded: LoadedModel, made: Generated, truncated: bool) -> Continuation:
    if made.finish is None:
        return Continuation(None, None, None, NOT_FINITE, truncated)
    text = loaded.tokenizer.decode(made.ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    return Continuation(text, len(made.ids), made.finish, truncated=truncated)
