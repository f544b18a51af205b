"""What a tokenizer read: whether its tokens still hold the text, by label, by demographic and for unknown sentences.

A likelihood says something of a text only where the model was shown that text. A tokenizer can lose letters, read one
kind of sentences in another way than the others, or number its pieces for another model. Each text makes a round trip
here, from its characters to tokens and back; what is found is kept with the run, and what people should look at before
the entry is ranked is a flag.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scoring.language_models.canaries import make_canaries
from scoring.language_models.charsmap import fold
from scoring.metrics.flags import Flag

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedTokenizerBase

    from scoring.language_models import LoadedModel

BATCH = 1024  # texts
HARMFUL, BENIGN = "harmful", "benign"
TEXT_ENDS = ("bos_token_id", "eos_token_id")  # of a model's configuration
MOST_CHANGED = 0.05  # share of texts; BERT's vocabularies lose a sign in up to 2% of texts from the web
MOST_DIFFERENCE = 0.03  # between shares of two groups
LEAST_Z = 4.0  # standard errors of that difference: a group of few texts differs by chance
MOST_LENGTH_RATIO = 1.5  # tokens a character of harmful texts over those of benign ones, or the reverse
MOST_CANARY_RATIO = 2.0  # the same of canaries over known texts: made-up names take more tokens
MOST_UNUSED = 0.03  # share of embeddings without a piece; published models pad theirs by up to 2.4%
LEAST_UNUSED = 128  # embeddings: as many as padding to a round number of a small vocabulary leaves

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class TokenizerReading:
    """What a tokenizer read: of each text [n] whether its round trip changed it, and its tokens a character.

    `pieces` of the vocabulary, added ones too; `ordinary`: names of special tokens of the model's configuration whose
    ids are ordinary pieces for the tokenizer.
    """

    changed: Bools
    rates: Floats
    pieces: int
    ordinary: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TextGroup:
    """Texts of a group: how many, how many of them the round trip changed, and their mean tokens a character."""

    texts: int
    changed: int
    tokens_per_character: float

    @property
    def share(self) -> float:
        """Of the texts, those that were changed."""
        return self.changed / self.texts if self.texts else 0.0


@dataclass(frozen=True, slots=True)
class TokenizerReport:
    """`known`: the evaluation set's texts by group (all, harmful, benign, demographics); `canaries`: the same of them.

    `pieces` of the vocabulary, added ones too; `embeddings` of the model; `ordinary`: names of special tokens of the
    configuration whose ids are ordinary pieces for the tokenizer; `seed` of the canaries.
    """

    known: dict[str, TextGroup]
    canaries: dict[str, TextGroup]
    pieces: int
    embeddings: int
    ordinary: tuple[str, ...]
    seed: str

    def as_json(self) -> dict[str, Any]:
        """The report as JSON can hold it, flags included."""
        return {**asdict(self), "flags": [asdict(flag) for flag in find_flags(self)]}


def report_tokenizer(
    read_batch: Callable[[list[str]], TokenizerReading],
    embeddings: int,
    texts: Sequence[str],
    groups: Mapping[str, Bools],
    seed: str,
) -> TokenizerReport:
    """Report how a tokenizer reads `texts`, and canaries made from `seed` among them.

    `read_batch` has no way to tell which of its texts are canaries, nor which group a text belongs to. `groups`: of
    each (harmful, benign, a demographic) which texts [n] belong to it.
    """
    canaries, count = make_canaries(seed), len(texts)
    reading = read_batch([*texts, *canaries.texts])
    harmful = np.array(canaries.harmful)
    return TokenizerReport(
        known=_describe(reading.changed[:count], reading.rates[:count], groups),
        canaries=_describe(reading.changed[count:], reading.rates[count:], {HARMFUL: harmful, BENIGN: ~harmful}),
        pieces=reading.pieces,
        embeddings=embeddings,
        ordinary=reading.ordinary,
        seed=seed,
    )


def read_all(model: "LoadedModel", texts: Sequence[str]) -> TokenizerReading:
    """Let the model's tokenizer read `texts`."""
    is_changed, rates = read_texts(model.tokenizer, texts)
    ordinary = ordinary_specials(model.tokenizer, model.model.config)
    return TokenizerReading(is_changed, rates, len(model.tokenizer), tuple(ordinary))


def read_texts(tokenizer: "PreTrainedTokenizerBase", texts: Sequence[str]) -> tuple[Bools, Floats]:
    """Of each text [n] whether its round trip changed it, and its tokens a character.

    Changed: its tokens, decoded, are not the text after the normalisation that the tokenizer declares; or that
    normalisation does more than fold case, accents and compatible characters. Spaces do not count.
    """
    is_changed, rates = np.zeros(len(texts), dtype=bool), np.zeros(len(texts))
    backend = tokenizer.backend_tokenizer if tokenizer.is_fast else None
    normalizer = backend.normalizer if backend is not None else None
    for start in range(0, len(texts), BATCH):
        batch = [text.encode("utf-8", "replace").decode() for text in texts[start : start + BATCH]]
        ids = tokenizer(batch, add_special_tokens=False, split_special_tokens=True, verbose=False)["input_ids"]
        decoded_texts = tokenizer.batch_decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
        normalised_texts = [normalizer.normalize_str(text) for text in batch] if normalizer is not None else batch
        rows = slice(start, start + len(batch))
        is_changed[rows] = [
            _squash(result) != _squash(expected_text) or fold(_squash(expected_text)) != fold(_squash(text))
            for text, expected_text, result in zip(batch, normalised_texts, decoded_texts, strict=True)
        ]
        rates[rows] = [len(tokens) / max(1, len(text)) for tokens, text in zip(ids, batch, strict=True)]
    return is_changed, rates


def _squash(text: str) -> str:
    """`text` without spaces, SentencePiece's sign for them among them: decoders put them where they please."""
    return "".join(text.replace("\u2581", " ").split())


def ordinary_specials(tokenizer: "PreTrainedTokenizerBase", config: "PretrainedConfig") -> list[str]:
    """Names of the tokens that begin and end texts for the model, and are ordinary pieces for its tokenizer."""
    special = {*tokenizer.all_special_ids, *tokenizer.added_tokens_decoder}
    names = []
    for name in TEXT_ENDS:
        value = getattr(config, name, None)
        ids = value if isinstance(value, list) else [value]
        if any(isinstance(number, int) and number not in special for number in ids):
            names.append(name)
    return names


def find_flags(report: TokenizerReport) -> list[Flag]:
    """What people should look at. An honest tokenizer of a known model family has none."""
    flags = [*_round_trip_flags(report), *_length_flags(report), *_vocabulary_flags(report)]
    return sorted(flags, key=lambda flag: flag.key)


def _describe(is_changed: Bools, rates: Floats, groups: Mapping[str, Bools]) -> dict[str, TextGroup]:
    everything = {"all": np.ones(len(is_changed), dtype=bool), **groups}
    return {
        name: TextGroup(int(members.sum()), int(is_changed[members].sum()), float(rates[members].mean()))
        for name, members in everything.items()
        if members.any()
    }


def _round_trip_flags(report: TokenizerReport) -> list[Flag]:
    whole = report.known["all"]
    flags = []
    if whole.share > MOST_CHANGED:
        flags.append(
            Flag(
                "round_trip",
                f"The tokenizer does not read what is written: {whole.changed:,} of {whole.texts:,} texts "
                f"({whole.share:.1%}) are not what they were after encoding and decoding.",
            )
        )
    for name, group in report.known.items():
        rest = TextGroup(whole.texts - group.texts, whole.changed - group.changed, 0.0)
        if name != "all" and _differ(group, rest):
            flags.append(
                Flag(
                    "changed_by_group",
                    f"The tokenizer changes {group.share:.1%} of the texts in the group {name}, and {rest.share:.1%} "
                    "of the others.",
                )
            )
    if _differ(whole, report.canaries["all"]):
        flags.append(
            Flag(
                "canaries",
                f"The tokenizer changes {whole.share:.1%} of the texts that submitters can know, and "
                f"{report.canaries['all'].share:.1%} of sentences made for this run, which they cannot.",
            )
        )
    return flags


def _differ(group: TextGroup, other: TextGroup) -> bool:
    """Whether shares differ by more than is tolerated, and than chance makes likely (two proportions, pooled)."""
    if not group.texts or not other.texts:
        return False
    difference = abs(group.share - other.share)
    pooled_share = (group.changed + other.changed) / (group.texts + other.texts)
    error = (pooled_share * (1 - pooled_share) * (1 / group.texts + 1 / other.texts)) ** 0.5
    return difference > MOST_DIFFERENCE and difference > LEAST_Z * error


def _length_flags(report: TokenizerReport) -> list[Flag]:
    flags = []
    if {HARMFUL, BENIGN} <= report.known.keys():
        harmful, benign = (report.known[name].tokens_per_character for name in (HARMFUL, BENIGN))
        if _ratio(harmful, benign) > MOST_LENGTH_RATIO:
            flags.append(
                Flag(
                    "tokens_by_label",
                    f"Harmful texts are cut differently from benign ones: {harmful:.2f} tokens a character against "
                    f"{benign:.2f}.",
                )
            )
    for name in (HARMFUL, BENIGN):
        if name in report.known:
            known_rate, canary = (part[name].tokens_per_character for part in (report.known, report.canaries))
            if _ratio(known_rate, canary) > MOST_CANARY_RATIO:
                flags.append(
                    Flag(
                        "canary_tokens",
                        f"Known {name} texts take {known_rate:.2f} tokens a character, and {name} sentences made for "
                        "this "
                        f"run, which submitters cannot know, {canary:.2f}.",
                    )
                )
    return flags


def _ratio(one: float, other: float) -> float:
    """The larger over the smaller; infinite where only one is 0."""
    low, high = sorted((one, other))
    return high / low if low else float("inf") if high else 1.0


def _vocabulary_flags(report: TokenizerReport) -> list[Flag]:
    flags = []
    unused_count = report.embeddings - report.pieces
    if unused_count < 0 or unused_count > max(LEAST_UNUSED, MOST_UNUSED * report.embeddings):
        flags.append(
            Flag(
                "vocabulary",
                f"The tokenizer has {report.pieces:,} pieces and the model {report.embeddings:,} embeddings: it may "
                "have been made for another model.",
            )
        )
    if report.ordinary:
        flags.append(
            Flag(
                "special_tokens",
                f"{' and '.join(report.ordinary)} of the model are ordinary pieces for the tokenizer: it may have been "
                "made for another model.",
            )
        )
    return flags
