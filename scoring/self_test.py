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
from scoring.generation.engine import decode
from scoring.language_models import FailedSelfTest, LoadedModel
from scoring.language_models.configuration import briefly
from scoring.likelihood import LikelihoodSettings, NotApplicable, SpecialTokens
from scoring.likelihood.engine import ONE_AT_A_TIME, choose_engine
from scoring.likelihood.pieces import Piece
from scoring.likelihood.tokens import cut_pieces, encode
from scoring.parts import is_out_of_memory
from scoring.self_test_result import VERSION, SelfTest

SENTENCES = (
    "The river rises in the mountains and flows north to the sea.",
    "She was elected to the council in 1987, and nobody remembers by how many votes she won.",
)
# In nats: what rounding alone may do to the likelihood of a token.
LIMITS = {"float32": 1e-3, "bfloat16": 0.5, "float16": 0.1}
LONGEST_CONTEXT = 2048  # tokens; a model with a longer one is tested as if it had WINDOW
WINDOW = 1024
REMEDY = "enter another model, or report this architecture to the people of this board"
NEW_TOKENS = 8  # by which each of the two texts is continued
PROMPT_TOKENS = 4  # of the second sentence; of unlike lengths, so that one is padded


Ids = list[int]


@torch.inference_mode()
def self_test(model: LoadedModel) -> SelfTest:
    """Compare the engine with the model's plain forward. Raises FailedSelfTest, with the figures, where they differ.

    Errors of the model on these texts are refusals too; a lack of memory is raised as it is.
    """
    began = time.perf_counter()
    with ONE_AT_A_TIME:
        try:
            model_within_reach = within_reach(model)
            differences = _likelihood_differences(model_within_reach)
            shortfalls = _shortfalls(model_within_reach) if model.architecture.kind == "causal" else []
        except (FailedSelfTest, NotApplicable):
            raise
        except Exception as error:  # the code of any architecture runs here, and raises anything
            if is_out_of_memory(error):
                raise
            raise FailedSelfTest(
                f"{model.architecture.class_name} fails the self-test with {type(error).__name__} ({briefly(error)}): "
                f"it cannot be scored here; {REMEDY}"
            ) from error
    return SelfTest(
        version=VERSION,
        precision=model.precision,
        texts=len(SENTENCES) + 1,
        tokens=len(differences),
        window=model_within_reach.architecture.context,
        difference=max(differences),
        continued=len(shortfalls),
        shortfall=max(shortfalls, default=0.0),
        limit=LIMITS[model.precision],
        seconds=time.perf_counter() - began,
    )


def within_reach(model: LoadedModel) -> LoadedModel:
    """The model, with a context of WINDOW where its own is so long that a text beyond it would take minutes."""
    if model.architecture.context <= LONGEST_CONTEXT:
        return model
    return replace(model, architecture=replace(model.architecture, context=WINDOW))


def _likelihood_differences(loaded_model: LoadedModel) -> list[float]:
    """By how much each compared likelihood differs, in nats. Raises FailedSelfTest where that is too much."""
    settings = LikelihoodSettings(precision=loaded_model.precision)
    special = SpecialTokens.for_model(loaded_model, settings)
    size = loaded_model.architecture.context - len(special.before) - len(special.after)
    stride = min(settings.stride, max(1, size // 2))
    texts = [*SENTENCES, text_beyond(loaded_model, settings, size)]
    encodings = encode(loaded_model, texts, settings)
    unscorable = next((encoding.unscorable for encoding in encodings if encoding.unscorable), None)
    if unscorable:
        raise FailedSelfTest(
            f"{loaded_model.architecture.class_name} cannot be tested: its tokenizer makes of an English sentence "
            f"{unscorable.value}; enter a model for text"
        )
    comparisons = chosen_pieces(
        cut_pieces(loaded_model, encodings, special, settings.stride), stride, len(special.before)
    )
    pieces = [piece for piece, _ in comparisons]
    values = dict(numbered_value for batch in choose_engine(loaded_model, settings)(pieces) for numbered_value in batch)
    differences = []
    for number, (piece, tokens) in enumerate(comparisons):
        ids = encodings[piece.text].ids
        for token, value in zip(tokens, values[number].tolist(), strict=True):
            plain = plain_log_likelihood(loaded_model, ids, token, special, size, stride)
            differences.append(_difference(value, plain))
            if differences[-1] > LIMITS[loaded_model.precision]:
                raise FailedSelfTest(
                    f"{loaded_model.architecture.class_name} does not pass the self-test: at token {token + 1} of "
                    f"{len(ids)} "
                    f"of test text {piece.text + 1} the engine gives a log-likelihood of {value:.4f}, the model's "
                    "plain "
                    f"forward {plain:.4f}. They differ by {differences[-1]:.3g} nats, and at most "
                    f"{LIMITS[loaded_model.precision]:g} is rounding. Its numbers would not be its own: {REMEDY}"
                )
    return differences


def chosen_pieces(pieces: list[Piece], stride: int, special_count: int) -> list[tuple[Piece, range]]:
    """What is compared: whole pieces of the sentences, and of the long text the first and last scored place of each.

    With each piece come the tokens of its text that it scores. special_count: special tokens before a text.
    """
    windows: Counter[int] = Counter()
    selection = []
    for piece in pieces:
        start = (
            windows[piece.text] * stride - special_count
        )  # the token of the text that would stand at the piece's place 0
        windows[piece.text] += 1
        bounds = [(piece.first, piece.last)]
        if piece.text == len(SENTENCES):
            bounds = [(place, place + 1) for place in sorted({piece.first, piece.last - 1})]
        for first, last in bounds:
            selection.append((replace(piece, first=first, last=last), range(start + first, start + last)))
    return selection


def text_beyond(model: LoadedModel, settings: LikelihoodSettings, size: int) -> str:
    """The two sentences again and again, in more than `size` tokens."""
    both = " ".join(SENTENCES)
    tokens = max(1, len(encode(model, [both], settings)[0].ids))
    return " ".join([both] * (size // tokens + 2))


def plain_log_likelihood(
    loaded_model: LoadedModel, ids: Ids, token: int, special: SpecialTokens, size: int, stride: int
) -> float:
    """The definition: the natural-log likelihood of `ids[token]`, by one call of the whole model on one text alone.

    What the model sees begins at the first of the windows of `size` tokens, `stride` apart, that reach the token.
    """
    start = 0 if token < size else -(-(token + 1 - size) // stride) * stride
    left_ids = [*special.before, *ids[start:token]]
    kind = loaded_model.architecture.kind
    if kind == "causal":
        return _log_softmax(loaded_model.model(input_ids=_row(loaded_model, left_ids)).logits[0, -1], ids[token])
    if kind == "masked":
        right_ids = [*ids[token + 1 : start + size], *special.after]
        row = _row(loaded_model, [*left_ids, loaded_model.tokenizer.mask_token_id, *right_ids])
        return _log_softmax(loaded_model.model(input_ids=row).logits[0, len(left_ids)], ids[token])
    width = len(left_ids) + 1
    mask = torch.ones(1, width, width, device=loaded_model.device).triu()  # a place sees those before it
    target = torch.zeros(1, 1, width, device=loaded_model.device)
    target[0, 0, -1] = 1
    output = loaded_model.model(
        input_ids=_row(loaded_model, [*left_ids, ids[token]]), perm_mask=mask, target_mapping=target
    )
    return _log_softmax(output.logits[0, 0], ids[token])


def _shortfalls(loaded_model: LoadedModel) -> list[float]:
    """By how many nats each token that greedy decoding draws is less likely than the likeliest by the plain forward.

    None of them where the model keeps no cache that this engine knows: it continues no texts here. Raises
    FailedSelfTest.
    """
    settings = LikelihoodSettings(precision=loaded_model.precision)
    room = loaded_model.architecture.context - NEW_TOKENS
    whole, other = (encoding.ids for encoding in encode(loaded_model, list(SENTENCES), settings))
    prompts = [whole[-room:], other[: min(PROMPT_TOKENS, room)]] if room > 0 else []
    greedy = GenerationSettings(k=1, top_k=1, max_new_tokens=NEW_TOKENS, precision=loaded_model.precision)
    owners = torch.arange(len(prompts))
    if not prompts:
        return []
    try:
        completions = decode(loaded_model, prompts, owners, owners, greedy)
    except UnsupportedKind:
        return []
    shortfalls = []
    for prompt, continuation in zip(prompts, completions, strict=True):
        ids = [*prompt, *continuation.ids.tolist()]
        for place in range(len(prompt), len(ids)):
            likelihoods = torch.log_softmax(
                loaded_model.model(input_ids=_row(loaded_model, ids[:place])).logits[0, -1].double(), -1
            )
            shortfall = float(likelihoods.max() - likelihoods[ids[place]])
            if shortfall > LIMITS[loaded_model.precision]:
                raise FailedSelfTest(
                    f"{loaded_model.architecture.class_name} does not pass the self-test: the likeliest token to "
                    "follow "
                    f"{place} others is by the generation engine one that the model's plain forward finds less likely "
                    f"than another, by {shortfall:.3g} nats, and at most {LIMITS[loaded_model.precision]:g} is "
                    "rounding. Its "
                    f"continuations would not be its own: {REMEDY}"
                )
            shortfalls.append(shortfall)
    return shortfalls


def _row(loaded_model: LoadedModel, ids: Sequence[int]) -> torch.Tensor:
    return torch.tensor([list(ids)], device=loaded_model.device)


def _log_softmax(logits: torch.Tensor, token: int) -> float:
    return float(torch.log_softmax(logits.double(), -1)[token])


def _difference(value: float, plain: float) -> float:
    """In nats; 0 where neither is a finite number: such texts are counted as unscorable, and that is another matter."""
    if not math.isfinite(value) and not math.isfinite(plain):
        return 0.0
    difference = abs(value - plain)
    return difference if math.isfinite(difference) else math.inf
