"""The settings that determine a likelihood, beside model and text."""

import re
from dataclasses import dataclass
from typing import get_args

from scoring.language_models import Precision

LONGEST_STRIDE = 512
CHOICES = {"bos": ("none", "prepend"), "variant": ("original", "word_l2r"), "precision": get_args(Precision)}


@dataclass(frozen=True, slots=True)
class LikelihoodSettings:
    """Settings of a likelihood. They enter the protocol's hash: other settings make another metric version.

    bos: "none" leaves the first token of a causal text unscored (the published code of Hosseini et al. 2023);
        "prepend" puts the tokenizer's BOS token, or EOS where it has none, before the text and scores every token.
    variant: "original" masks one token at a time (Salazar et al. 2020); "word_l2r" also the tokens after it of the
        same word (Kauf & Ivanova 2023).
    mask_token: "tokenizer" masks with the tokenizer's own mask token. "id:103" masks with that id, whatever the
        tokenizer, and every masked copy scores every position that holds the id: a quirk of the published code of
        Hosseini et al. 2023, which is right for BERT's vocabularies and masks with an ordinary word piece elsewhere.
    stride: tokens between the windows over a text longer than the context; at most half a context.
    precision: of weights and activations; log-sum-exps are always float32.
    """

    bos: str = "none"
    variant: str = "original"
    mask_token: str = "tokenizer"  # noqa: S105 (a token of text, not a secret)
    stride: int = LONGEST_STRIDE
    precision: Precision = "float32"

    def __post_init__(self) -> None:
        for field, choices in CHOICES.items():
            if getattr(self, field) not in choices:
                raise ValueError(f"{field} = {getattr(self, field)!r}: use {' or '.join(map(repr, choices))}")
        if self.mask_token != "tokenizer" and not re.fullmatch(r"id:\d+", self.mask_token):  # noqa: S105
            raise ValueError(
                f"mask_token = {self.mask_token!r}: use 'tokenizer', or 'id:' and a number, as in 'id:103'"
            )
        if self.stride < 1:
            raise ValueError(f"stride = {self.stride}: it counts tokens, use 1 or more")

    @property
    def fixed_mask_id(self) -> int | None:
        """The id to mask with, whatever the tokenizer; None for the tokenizer's own mask token."""
        return int(self.mask_token.removeprefix("id:")) if self.mask_token.startswith("id:") else None
