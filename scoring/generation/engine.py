"""Continuations from a model that runs here: prefill each prompt once, then decode many continuations together."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from scoring.evaluation_sets.prompts import Prompt
from scoring.generation.batches import Row, canonical_batches
from scoring.generation.chat import encode_chats
from scoring.generation.continuation import NOT_FINITE, Continuation, Finish, failed_continuations
from scoring.generation.encoded_prompts import NO_TOKENS, NOT_EMBEDDED, EncodedPrompt
from scoring.generation.protocols import ChatSettings, GenerationSettings, UnsupportedKind
from scoring.generation.sampling import sample, streams
from scoring.generation.state import DecodingState
from scoring.language_models import LoadedModel
from scoring.parts import Parts

WORTH_DROPPING = 1 / 8  # the finished share of a batch: dropping rows copies the keys and values of the others


@dataclass(frozen=True, slots=True)
class Generated:
    """New token ids of one row, int64 [n], without the end of text, and how it ended; None at logits not finite."""

    ids: np.ndarray
    finish: Finish | None


@torch.inference_mode()
def continuations(
    model: LoadedModel,
    prompts: Sequence[Prompt],
    settings: GenerationSettings,
    progress: Callable[[int], None] = lambda _count: None,
) -> list[list[Continuation]]:
    """Return k continuations of each of `prompts`, in their order.

    One call is one shard. The random stream of a continuation depends on (seed, prompt id, its index) alone, and
    batches depend on the prompts of the call, not on their order: the same call gives the same bytes everywhere. Other
    prompts in the batch change a draw only where it lies within float rounding of a boundary. Where memory runs out,
    the batch is halved at its width (see `Parts`), and so are all later ones of its size.

    After every step of decoding `progress` gets the number of prompts finished so far; what it raises passes through.
    Raises UnsupportedKind for a model that is not causal, ValueError where ids repeat, the precision is not the
    model's, or max_new_tokens leaves no room for a prompt; and what torch raises where memory does not suffice for one
    continuation.
    """
    check(model, prompts, settings)
    if isinstance(settings, ChatSettings):
        encodings = encode_chats(model, prompts, settings)
    else:
        encodings = encode(model, prompts, settings)
    queue = canonical_batches(
        model, prompts, [len(encoding.ids) for encoding in encodings], settings.k, settings.max_new_tokens
    )
    generations: dict[Row, Generated] = {}
    open_rows = np.array([settings.k if encoding.ids else 0 for encoding in encodings], dtype=int)
    prompt_count = int((open_rows == 0).sum())
    parts = Parts(model.device)
    for batch in queue:
        width = max(len(encodings[number].ids) for number, _ in batch)

        def generate(rows: Sequence[Row]) -> list[Generated]:
            after_step = partial(progress, prompt_count)  # noqa: B023 - called before the loop goes on
            return _generate(model, prompts, encodings, rows, width, settings, after_step)  # noqa: B023

        for rows, results in parts.compute(batch, width, generate):
            generations.update(zip(rows, results, strict=True))
            np.subtract.at(open_rows, [number for number, _ in rows], 1)
            prompt_count = int((open_rows == 0).sum())
            progress(prompt_count)
    return [
        failed_continuations(encoding.error, settings.k)
        if encoding.error
        else [_continuation(model, generations[number, index], encoding) for index in range(settings.k)]
        for number, encoding in enumerate(encodings)
    ]


def check(model: LoadedModel, prompts: Sequence[Prompt], settings: GenerationSettings) -> None:
    """Raise the errors that `continuations` raises before it begins."""
    kind = model.architecture.kind
    if kind != "causal":
        raise UnsupportedKind(f"{model.architecture.class_name} is a {kind} model: only causal models continue texts")
    if model.precision != settings.precision:
        raise ValueError(f"precision = {settings.precision!r}: the model was loaded in {model.precision}")
    if len({prompt.id for prompt in prompts}) < len(prompts):
        raise ValueError("two prompts have the same id, and would have the same random stream: give each its own")


def encode(model: LoadedModel, prompts: Sequence[Prompt], settings: GenerationSettings) -> list[EncodedPrompt]:
    """Tokenise prompts; the longest lose their beginning, so that the new tokens fit the context as well.

    Each prompt begins with the special tokens that the tokenizer puts before a text by default; nothing follows it. The
    name of a special token counts as ordinary text. Raises ValueError where no token of a prompt fits.
    """
    if not prompts:
        return []
    tokenizer = model.tokenizer
    probe = "a"
    bare, whole = tokenizer(probe, add_special_tokens=False)["input_ids"], tokenizer(probe)["input_ids"]
    prefix = whole[: next(i for i in range(len(whole)) if whole[i : i + len(bare)] == bare)]
    room = model.architecture.context - settings.max_new_tokens - len(prefix)
    if room < 1:
        raise ValueError(
            f"max_new_tokens = {settings.max_new_tokens}: the model's context of {model.architecture.context} tokens "
            "leaves no room for a prompt; use fewer"
        )
    texts = [prompt.text for prompt in prompts]
    token_ids = tokenizer(texts, add_special_tokens=False, split_special_tokens=True, verbose=False)["input_ids"]
    return [_encode_prompt(prefix, ids, room, model.architecture.vocabulary) for ids in token_ids]


def _encode_prompt(prefix: list[int], ids: list[int], room: int, vocabulary: int) -> EncodedPrompt:
    prompt_ids = [*prefix, *ids[-room:]]
    if not prompt_ids:
        return EncodedPrompt([], error=NO_TOKENS)
    if max(prompt_ids) >= vocabulary:
        return EncodedPrompt([], error=NOT_EMBEDDED)
    return EncodedPrompt(prompt_ids, truncated=len(ids) > room)


def _generate(
    model: LoadedModel,
    prompts: Sequence[Prompt],
    encodings: Sequence[EncodedPrompt],
    rows: Sequence[Row],
    width: int,
    settings: GenerationSettings,
    after_step: Callable[[], None],
) -> list[Generated]:
    """Return what `decode` gives for these rows."""
    keys = streams(settings.seed, [(prompts[number].id, index) for number, index in rows])
    numbers = list(dict.fromkeys(number for number, _ in rows))
    places = {number: place for place, number in enumerate(numbers)}
    owners = torch.tensor([places[number] for number, _ in rows])
    return decode(model, [encodings[number].ids for number in numbers], owners, keys, settings, after_step, width)


def decode(
    model: LoadedModel,
    prompts: Sequence[list[int]],
    owners: torch.Tensor,
    keys: torch.Tensor,
    settings: GenerationSettings,
    after_step: Callable[[], None] = lambda: None,
    width: int = 0,
) -> list[Generated]:
    """Continue row i from the ids of prompt `owners[i]` by the random stream `keys[i]` (both int64 [n]).

    width: what prompts are padded to, if that is more than the longest.
    """
    ends = torch.tensor(end_of_text(model), dtype=torch.long, device=model.device)
    most = settings.max_new_tokens
    token_ids = torch.full((len(owners), most), -1, device=model.device)
    rows = torch.arange(len(owners), device=model.device)  # rows still in the batch
    keys = keys.to(model.device)
    state = DecodingState(model, prompts, owners.to(model.device), most - 1, width)
    live = torch.ones_like(rows, dtype=torch.bool)
    for step in range(most):
        tokens = sample(state.logits, keys, step, settings)
        token_ids[rows[live], step] = tokens[live]
        live &= ~torch.isin(tokens, ends) & (tokens >= 0)
        after_step()
        count = int(live.sum())
        if count == 0 or step + 1 == most:
            break
        if count <= len(rows) * (1 - WORTH_DROPPING):
            live_rows = live.nonzero()[:, 0]
            rows, keys, tokens, live = rows[live_rows], keys[live_rows], tokens[live_rows], live[live_rows]
            state.keep(live_rows)
        state.advance(tokens.clamp(min=0))
    return [_trim_generation(ids, set(ends.tolist())) for ids in token_ids.cpu().numpy()]


def _trim_generation(ids: np.ndarray, ends: set[int]) -> Generated:
    for place, token in enumerate(ids.tolist()):
        if token in ends:
            return Generated(ids[:place], Finish.STOP)
        if token < 0:
            return Generated(ids[:place], None)
    return Generated(ids, Finish.LENGTH)


def end_of_text(model: LoadedModel) -> list[int]:
    """The ids of the tokens that end a text, from the model's configuration and its tokenizer."""
    eos_token_id = getattr(model.model.generation_config, "eos_token_id", None)
    eos_token_ids = eos_token_id if isinstance(eos_token_id, list) else [eos_token_id]
    return sorted({token for token in [*eos_token_ids, model.tokenizer.eos_token_id] if token is not None})


def _continuation(model: LoadedModel, generation: Generated, prompt: EncodedPrompt) -> Continuation:
    if generation.finish is None:
        return Continuation(None, None, None, NOT_FINITE, prompt.truncated)
    text = prompt.opening + model.tokenizer.decode(
        generation.ids, skip_special_tokens=True, clean_up_tokenization_spaces=False
    )
    return Continuation(text, len(generation.ids), generation.finish, truncated=prompt.truncated)
