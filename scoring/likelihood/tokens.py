"""From texts to pieces: tokenise, reject what cannot be scored, add special tokens by one rule, cut into windows."""

from collections.abc import Sequence
from dataclasses import dataclass

from scoring.language_models import LoadedModel
from scoring.likelihood.batches import windows
from scoring.likelihood.passages import Passage, is_unicode
from scoring.likelihood.pieces import Piece
from scoring.likelihood.reasons import NotApplicable, Unscorable
from scoring.likelihood.settings import LikelihoodSettings


@dataclass(frozen=True, slots=True)
class SpecialTokens:
    """The special tokens before and after every window of a text, by one rule. They are never scored."""

    before: list[int]
    after: list[int]

    @classmethod
    def for_model(cls, model: LoadedModel, settings: LikelihoodSettings) -> "SpecialTokens":
        """A masked model's own frame, as in [CLS] text [SEP]; otherwise nothing, or BOS where the settings say so.

        Raises NotApplicable where the settings require BOS and the tokenizer has neither BOS nor EOS.
        """
        tokenizer = model.tokenizer
        if model.architecture.kind == "masked":
            probe = "a"
            bare = tokenizer(probe, add_special_tokens=False)["input_ids"]
            whole = tokenizer(probe)["input_ids"]
            start = next(i for i in range(len(whole)) if whole[i : i + len(bare)] == bare)
            return cls(whole[:start], whole[start + len(bare) :])
        if settings.bos == "none":
            return cls([], [])
        first = tokenizer.eos_token_id if tokenizer.bos_token_id is None else tokenizer.bos_token_id
        if first is None:
            raise NotApplicable("bos = 'prepend': the tokenizer has neither a BOS nor an EOS token, use 'none'")
        return cls([first], [])

    def describe(self, model: LoadedModel) -> str:
        """Describe the frame, as in "[CLS] text [SEP]"."""
        tokens = model.tokenizer.convert_ids_to_tokens
        return " ".join([*tokens(self.before), "text", *tokens(self.after)])


@dataclass(frozen=True, slots=True)
class EncodedText:
    """The token ids of a text without special tokens, their words where needed, or why it cannot be scored.

    first, last: the range [first, last) of the tokens to score; `last` is None where it is the end of the text.
    """

    ids: list[int]
    words: list[int] | None
    unscorable: Unscorable | None
    first: int = 0
    last: int | None = None


def encode(model: LoadedModel, texts: Sequence[str | Passage], settings: LikelihoodSettings) -> list[EncodedText]:
    """Tokenise `texts`. The name of a special token counts as ordinary text, or else the text has no likelihood.

    Raises NotApplicable where the settings need words, or a passage its place, and the tokenizer does not report them.
    """
    passages = [text if isinstance(text, Passage) else Passage(text) for text in texts]
    tokenizer = model.tokenizer
    with_words = model.architecture.kind == "masked" and settings.variant == "word_l2r"
    if with_words and not tokenizer.is_fast:
        raise NotApplicable("variant = 'word_l2r': the tokenizer does not say which tokens form a word")
    with_offsets = not all(passage.is_whole for passage in passages)
    if with_offsets and not tokenizer.is_fast:
        raise NotApplicable("the tokenizer does not say where in a text a token stands, and part of it is scored")
    special = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
    fewest = 1 if model.architecture.kind == "masked" or settings.bos == "prepend" else 2
    encodings = [EncodedText([], None, Unscorable.NOT_UNICODE)] * len(passages)
    valid = [place for place, passage in enumerate(passages) if is_unicode(passage.text)]
    if not valid:  # tokenizers fail on an empty batch
        return encodings
    batch = tokenizer(
        [passages[place].text for place in valid],
        add_special_tokens=False,
        split_special_tokens=True,
        verbose=False,
        return_offsets_mapping=with_offsets,
    )
    for number, place in enumerate(valid):
        ids = batch["input_ids"][number]
        reason = None
        if len(ids) < fewest:
            reason = Unscorable.LONE if ids else Unscorable.EMPTY
        elif not special.isdisjoint(ids):  # Unigram vocabularies hold special tokens as ordinary pieces
            reason = Unscorable.SPECIAL
        elif max(ids) >= model.architecture.vocabulary:
            reason = Unscorable.NOT_EMBEDDED
        first, last = 0, None
        if not passages[place].is_whole:
            first, last = passages[place].token_range(batch["offset_mapping"][number])
            if reason is None and last <= max(first, fewest - 1):
                reason = Unscorable.EMPTY if first == last else Unscorable.LONE
        encodings[place] = EncodedText(ids, batch.word_ids(number) if with_words else None, reason, first, last)
    return encodings


def cut_pieces(model: LoadedModel, encodings: list[EncodedText], special: SpecialTokens, stride: int) -> list[Piece]:
    """Cut texts into pieces that fit the model's context, in order; unscorable texts have none."""
    size = model.architecture.context - len(special.before) - len(special.after)
    stride = min(stride, max(1, size // 2))
    lone = model.architecture.kind != "masked" and not special.before  # nothing precedes the first token
    pieces = []
    for text, encoding in enumerate(encodings):
        if encoding.unscorable:
            continue
        for window in windows(len(encoding.ids), size, stride):
            first = max(window.scored, encoding.first, 1 if lone else 0)
            last = window.stop if encoding.last is None else min(window.stop, encoding.last)
            if first >= last:
                continue
            shift = len(special.before) - window.start
            ids = [*special.before, *encoding.ids[window.start : window.stop], *special.after]
            words = encoding.words and [
                *[-1] * len(special.before),
                *encoding.words[window.start : window.stop],
                *[-1] * len(special.after),
            ]
            pieces.append(Piece(text, ids, first + shift, last + shift, words))
    return pieces
