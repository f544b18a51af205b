"""From texts to pieces: tokenise, say what cannot be scored, add special tokens by one rule, cut into windows."""

from dataclasses import dataclass

from scoring.language_models import LoadedModel
from scoring.likelihood.batches import windows
from scoring.likelihood.pieces import Piece
from scoring.likelihood.reasons import NotApplicable, Unscorable
from scoring.likelihood.settings import LikelihoodSettings


@dataclass(frozen=True, slots=True)
class SpecialTokens:
    """The one rule for special tokens: what stands before and after every window of a text. They are never scored."""

    before: list[int]
    after: list[int]

    @classmethod
    def of(cls, loaded: LoadedModel, settings: LikelihoodSettings) -> "SpecialTokens":
        """A masked model's own frame, as in [CLS] text [SEP]; otherwise nothing, or BOS where it is asked for.

        Raises NotApplicable where BOS is asked for and the tokenizer has neither BOS nor EOS.
        """
        tokenizer = loaded.tokenizer
        if loaded.architecture.kind == "masked":
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

    def shown(self, loaded: LoadedModel) -> str:
        """As in "[CLS] text [SEP]"."""
        tokens = loaded.tokenizer.convert_ids_to_tokens
        return " ".join([*tokens(self.before), "text", *tokens(self.after)])


@dataclass(frozen=True, slots=True)
class Encoded:
    """The token ids of one text without special tokens, the word of each where asked for, or why it has none."""

    ids: list[int]
    words: list[int] | None
    unscorable: Unscorable | None


def encode(loaded: LoadedModel, texts: list[str], settings: LikelihoodSettings) -> list[Encoded]:
    """Tokenise `texts`; what looks like a special token is ordinary text, or the text has no likelihood.

    Raises NotApplicable where words are asked for and the tokenizer does not know them.
    """
    tokenizer = loaded.tokenizer
    with_words = loaded.architecture.kind == "masked" and settings.variant == "word_l2r"
    if with_words and not tokenizer.is_fast:
        raise NotApplicable("variant = 'word_l2r': the tokenizer does not say which tokens form a word")
    special = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
    fewest = 1 if loaded.architecture.kind == "masked" or settings.bos == "prepend" else 2
    found = [Encoded([], None, Unscorable.NOT_UNICODE)] * len(texts)
    valid = [place for place, text in enumerate(texts) if is_unicode(text)]
    if not valid:  # tokenizers fail on an empty batch
        return found
    batch = tokenizer(
        [texts[place] for place in valid], add_special_tokens=False, split_special_tokens=True, verbose=False
    )
    for number, place in enumerate(valid):
        ids = batch["input_ids"][number]
        reason = None
        if len(ids) < fewest:
            reason = Unscorable.LONE if ids else Unscorable.EMPTY
        elif not special.isdisjoint(ids):  # Unigram vocabularies hold special tokens as pieces like any other
            reason = Unscorable.SPECIAL
        elif max(ids) >= loaded.architecture.vocabulary:
            reason = Unscorable.NOT_EMBEDDED
        found[place] = Encoded(ids, batch.word_ids(number) if with_words else None, reason)
    return found


def is_unicode(text: str) -> bool:
    """Whether `text` can be written as UTF-8: half of a surrogate pair, as in a cut emoji, cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def cut(loaded: LoadedModel, encoded: list[Encoded], special: SpecialTokens, stride: int) -> list[Piece]:
    """Pieces that fit the model's context, in the order of the texts; unscorable texts have none."""
    size = loaded.architecture.context - len(special.before) - len(special.after)
    stride = min(stride, max(1, size // 2))
    lone = loaded.architecture.kind != "masked" and not special.before  # nothing precedes the first token
    pieces = []
    for text, of in enumerate(encoded):
        if of.unscorable:
            continue
        for window in windows(len(of.ids), size, stride):
            first = max(window.scored, 1) if lone else window.scored
            shift = len(special.before) - window.start
            ids = [*special.before, *of.ids[window.start : window.stop], *special.after]
            words = of.words and [
                *[-1] * len(special.before),
                *of.words[window.start : window.stop],
                *[-1] * len(special.after),
            ]
            pieces.append(Piece(text, ids, first + shift, window.stop + shift, words))
    return pieces
