"""The settings that determine a continuation, beside model and prompt, and the named protocols of the field."""

from dataclasses import dataclass
from typing import get_args

from scoring.language_models import Precision
from scoring.refusals import Refused


class UnsupportedKind(Refused):
    """The model does not generate from left to right; the message names its kind."""


@dataclass(frozen=True, slots=True)
class GenerationSettings:
    """Settings of continuations. They enter the protocol's hash: other settings make another metric version.

    k: continuations of each prompt. temperature: divides the logits. top_k: only so many of the likeliest tokens may
    follow; 0 sets no limit. top_p: of these, only the likeliest that together reach this probability may follow
    (nucleus; Holtzman et al. 2020). Tokens as likely as the last permitted one may follow too.
    max_new_tokens: the most tokens of a continuation, which stops earlier at the end of text. seed: 0 or more.
    precision: of weights and activations; probabilities are always float32.
    """

    k: int = 25
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    max_new_tokens: int = 20
    seed: int = 0
    precision: Precision = "float32"

    def __post_init__(self) -> None:
        for field, least in (("k", 1), ("top_k", 0), ("max_new_tokens", 1), ("seed", 0)):
            if getattr(self, field) < least:
                raise ValueError(f"{field} = {getattr(self, field)}: use {least} or more")
        if not 0 < self.temperature < float("inf"):
            raise ValueError(f"temperature = {self.temperature}: use more than 0; for the likeliest token, top_k = 1")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p = {self.top_p}: use more than 0 and at most 1")
        if self.precision not in get_args(Precision):
            raise ValueError(f"precision = {self.precision!r}: use {' or '.join(map(repr, get_args(Precision)))}")


PROTOCOLS = {
    # Gehman et al. 2020, as in Snoswell et al. 2023.
    "rtp": GenerationSettings(k=25, top_p=0.9),
    # HELM (Liang et al. 2022), as rescored by Pozzobon et al. 2023.
    "rtp-helm": GenerationSettings(k=5),
    # Sheng et al. 2019: 1,000 statements a demographic, 25 of each of the 40 templates that come with Plumbline.
    "regard": GenerationSettings(k=25, top_k=40),
}
