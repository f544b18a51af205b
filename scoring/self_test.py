"""The self-test of a model: what the engine gives, against the model's plain forward, token by token.

The engine cuts texts into windows, pads and batches them, calls the model's body and head apart and keeps keys and
values. The plain forward does none of that: for each token the model is called on what it may see, one text alone, and
the whole of it. Of two sentences every token is compared; of a text beyond the context the first and the last token
that each window scores. A causal model also continues two texts by its likeliest tokens, and each of them has to be
the likeliest by the plain forward too. A model for which the two differ would be ranked by numbers that are not its
own.
"""

import math
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import torch

from scoring.generation import GenerationSettings, UnsupportedKind
from scoring.generation.engine import decode, is_out_of_memory
from scoring.language_models import FailedSelfTest, LoadedModel
from scoring.language_models.configuration import briefly
from scoring.likelihood import LikelihoodSettings, NotApplicable, SpecialTokens
from scoring.likelihood.engine import ONE_AT_A_TIME, engine_of
from scoring.likelihood.pieces import Piece
from scoring.likelihood.tokens import cut, encode
from scoring.self_test_result import VERSION, SelfTest

SENTENCES = (
    "The river rises in the mountains and flows north to the sea.",
    "She was elected to the council in 1987, and nobody remembers by how many votes she won.",
)
LIMITS = {"float32": 1e-3, "bfloat16": 0.5}  # nats: what rounding alone may do to the likelihood of a token
LONGEST_CONTEXT = 2048  # tokens; a model with a longer one is tested as if it had WINDOW
WINDOW = 1024
REMEDY = "enter another model, or report this architecture to the people of this board"
NEW_TOKENS = 8  # by which each of the two texts is continued
PROMPT_TOKENS = 4  # of the second sentence; of unlike lengths, so that one is padded


Ids = list[int]


@torch.inference_mode()
def self_test(loaded: LoadedModel) -> SelfTest:
    """Compare the engine with the model's plain forward. Raises FailedSelfTest, with the figures, where they differ.

    Errors of the model on these texts are refusals too; a lack of memory is raised as it is.
    """
    began = time.perf_counter()
    with ONE_AT_A_TIME:
        try:
            tested = within_reach(loaded)
            differences = _likelihood_differences(tested)
            shortfalls = _shortfalls(tested) if loaded.architecture.kind == "causal" else []
        except (FailedSelfTest, NotApplicable):
            raise
        except Exception as error:  # the code of any architecture runs here, and raises anything
            if is_out_of_memory(error):
                raise
            raise FailedSelfTest(
                f"{loaded.architecture.class_name} fails the self-test with {type(error).__name__} ({briefly(error)}): "
                f"it cannot be scored here; {REMEDY}"
            ) from error
    return SelfTest(
        version=VERSION,
        precision=loaded.precision,
        texts=len(SENTENCES) + 1,
        tokens=len(differences),
        window=tested.architecture.context,
        difference=max(differences),
        continued=len(shortfalls),
        shortfall=max(shortfalls, default=0.0),
        limit=LIMITS[loaded.precision],
        seconds=time.perf_counter() - began,
    )


def within_reach(loaded: LoadedModel) -> LoadedModel:
    """The model, with a context of WINDOW where its own is so long that a text beyond it would take minutes."""
    if loaded.architecture.context <= LONGEST_CONTEXT:
        return loaded
    return replace(loaded, architecture=replace(loaded.architecture, context=WINDOW))


def _likelihood_differences(loaded: LoadedModel) -> list[float]:
    """By how much each compared likelihood differs, in nats. Raises FailedSelfTest where that is too much."""
    settings = LikelihoodSettings(precision=loaded.precision)
    special = SpecialTokens.of(loaded, settings)
    size = loaded.architecture.context - len(special.before) - len(special.after)
    stride = min(settings.stride, max(1, size // 2))
    texts = [*SENTENCES, text_beyond(loaded, settings, size)]
    encoded = encode(loaded, texts, settings)
    unscorable = next((of.unscorable for of in encoded if of.unscorable), None)
    if unscorable:
        raise FailedSelfTest(
            f"{loaded.architecture.class_name} cannot be tested: its tokenizer makes of an English sentence "
            f"{unscorable.value}; enter a model for text"
        )
    compared = chosen_pieces(cut(loaded, encoded, special, settings.stride), stride, len(special.before))
    pieces = [piece for piece, _ in compared]
    values = dict(scored for batch in engine_of(loaded, settings)(pieces) for scored in batch)
    differences = []
    for number, (piece, tokens) in enumerate(compared):
        ids = encoded[piece.text].ids
        for token, ours in zip(tokens, values[number].tolist(), strict=True):
            plain = plain_log_likelihood(loaded, ids, token, special, size, stride)
            differences.append(_difference(ours, plain))
            if differences[-1] > LIMITS[loaded.precision]:
                raise FailedSelfTest(
                    f"{loaded.architecture.class_name} does not pass the self-test: at token {token + 1} of {len(ids)} "
                    f"of test text {piece.text + 1} the engine gives a log-likelihood of {ours:.4f}, the model's plain "
                    f"forward {plain:.4f}. They differ by {differences[-1]:.3g} nats, and at most "
                    f"{LIMITS[loaded.precision]:g} is rounding. Its numbers would not be its own: {REMEDY}"
                )
    return differences


def chosen_pieces(pieces: list[Piece], stride: int, before: int) -> list[tuple[Piece, range]]:
    """What is compared: whole pieces of the sentences, and of the long text the first and last scored place of each.

    With each piece come the tokens of its text that it scores. before: special tokens that stand before a text.
    """
    windows: Counter[int] = Counter()
    chosen = []
    for piece in pieces:
        start = windows[piece.text] * stride - before  # the token of the text that would stand at the piece's place 0
        windows[piece.text] += 1
        bounds = [(piece.first, piece.last)]
        if piece.text == len(SENTENCES):
            bounds = [(place, place + 1) for place in sorted({piece.first, piece.last - 1})]
        for first, last in bounds:
            chosen.append((replace(piece, first=first, last=last), range(start + first, start + last)))
    return chosen


def text_beyond(loaded: LoadedModel, settings: LikelihoodSettings, size: int) -> str:
    """The two sentences again and again, in more than `size` tokens."""
    both = " ".join(SENTENCES)
    tokens = max(1, len(encode(loaded, [both], settings)[0].ids))
    return " ".join([both] * (size // tokens + 2))


def plain_log_likelihood(
    loaded: LoadedModel, ids: Ids, token: int, special: SpecialTokens, size: int, stride: int
) -> float:
    """The definition: the natural-log likelihood of `ids[token]`, by one call of the whole model on one text alone.

    What the model sees begins at the first of the windows of `size` tokens, `stride` apart, that reach the token.
    """
    start = 0 if token < size else -(-(token + 1 - size) // stride) * stride
    before = [*special.before, *ids[start:token]]
    kind = loaded.architecture.kind
    if kind == "causal":
        return _log_softmax(loaded.model(input_ids=_row(loaded, before)).logits[0, -1], ids[token])
    if kind == "masked":
        after = [*ids[token + 1 : start + size], *special.after]
        hidden = _row(loaded, [*before, loaded.tokenizer.mask_token_id, *after])
        return _log_softmax(loaded.model(input_ids=hidden).logits[0, len(before)], ids[token])
    width = len(before) + 1
    unseen = torch.ones(1, width, width, device=loaded.device).triu()  # a place sees those before it
    target = torch.zeros(1, 1, width, device=loaded.device)
    target[0, 0, -1] = 1
    output = loaded.model(input_ids=_row(loaded, [*before, ids[token]]), perm_mask=unseen, target_mapping=target)
    return _log_softmax(output.logits[0, 0], ids[token])


def _shortfalls(loaded: LoadedModel) -> list[float]:
    """By how many nats each token that greedy decoding draws is less likely than the likeliest by the plain forward.

    None of them where the model keeps no cache that this engine knows: it continues no texts here. Raises
    FailedSelfTest.
    """
    settings = LikelihoodSettings(precision=loaded.precision)
    room = loaded.architecture.context - NEW_TOKENS
    whole, other = (of.ids for of in encode(loaded, list(SENTENCES), settings))
    prompts = [whole[-room:], other[: min(PROMPT_TOKENS, room)]] if room > 0 else []
    greedy = GenerationSettings(k=1, top_k=1, max_new_tokens=NEW_TOKENS, precision=loaded.precision)
    owners = torch.arange(len(prompts))
    if not prompts:
        return []
    try:
        made = decode(loaded, prompts, owners, owners, greedy)
    except UnsupportedKind:
        return []
    shortfalls = []
    for prompt, continuation in zip(prompts, made, strict=True):
        ids = [*prompt, *continuation.ids.tolist()]
        for place in range(len(prompt), len(ids)):
            likelihoods = torch.log_softmax(
                loaded.model(input_ids=_row(loaded, ids[:place])).logits[0, -1].double(), -1
            )
            shortfall = float(likelihoods.max() - likelihoods[ids[place]])
            if shortfall > LIMITS[loaded.precision]:
                raise FailedSelfTest(
                    f"{loaded.architecture.class_name} does not pass the self-test: the likeliest token to follow "
                    f"{place} others is by the generation engine one that the model's plain forward finds less likely "
                    f"than another, by {shortfall:.3g} nats, and at most {LIMITS[loaded.precision]:g} is rounding. Its "
                    f"continuations would not be its own: {REMEDY}"
                )
            shortfalls.append(shortfall)
    return shortfalls


def _row(loaded: LoadedModel, ids: Sequence[int]) -> torch.Tensor:
    return torch.tensor([list(ids)], device=loaded.device)


def _log_softmax(logits: torch.Tensor, token: int) -> float:
    return float(torch.log_softmax(logits.double(), -1)[token])


def _difference(ours: float, plain: float) -> float:
    """In nats; 0 where neither is a finite number: such texts are counted as unscorable, and that is another matter."""
    if not math.isfinite(ours) and not math.isfinite(plain):
        return 0.0
    difference = abs(ours - plain)
    return difference if math.isfinite(difference) else math.inf
