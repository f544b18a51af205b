"""How models are trained, as data: no library that trains them is needed to hold it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from scoring.refusals import Refused

PRECISIONS = ("float32", "bfloat16")


def _option(default: Any, description: str) -> Any:
    return field(default=default, metadata={"help": description})


@dataclass(frozen=True, kw_only=True)
class Loop:
    """How a model is trained: `stages` are numbers of steps, each with a warm-up and a decay of its own.

    A step learns from `batch` x `accumulation` examples. `deepspeed` is a configuration file of that library.
    """

    stages: Sequence[int]
    batch: int
    seed: int
    peak_rate: float
    accumulation: int = 1
    weight_decay: float = 0.01
    checkpoint_every: int = 100
    precision: str = "float32"
    gradient_checkpointing: bool = False
    deepspeed: Path | None = None

    def __post_init__(self) -> None:
        for name in ("batch", "accumulation", "checkpoint_every"):
            if getattr(self, name) < 1:
                raise Refused.of_value(name, getattr(self, name), "use 1 or more")
        if self.precision not in PRECISIONS:
            raise Refused.of_value("precision", self.precision, "use float32 or bfloat16")
        if not 0 < self.peak_rate < math.inf:
            raise Refused.of_value("learning_rate", self.peak_rate, "use a number above 0")
        if self.deepspeed is not None and not self.deepspeed.is_file():
            raise Refused.of_value("deepspeed", str(self.deepspeed), "is no file; give its JSON configuration")
        if self.deepspeed is not None and find_spec("deepspeed") is None:
            raise Refused.of_value(
                "deepspeed", str(self.deepspeed), "the package is missing; pip install deepspeed, or leave this out"
            )

    @property
    def steps(self) -> int:
        """Of all stages together."""
        return sum(self.stages)

    @property
    def examples(self) -> int:
        """How many examples the whole run sees."""
        return self.steps * self.batch * self.accumulation


@dataclass(frozen=True, kw_only=True)
class Distillation:
    """How students learn. Steps that are None are those of one epoch; `context` None is the teacher's."""

    pretraining_steps: int | None = _option(None, "steps of language modelling before distillation (default: an epoch)")
    steps: int | None = _option(None, "steps of distillation (default: an epoch)")
    batch: int = _option(8, "texts a step")
    context: int | None = _option(None, "tokens a text (default: the teacher's longest)")
    learning_rate: float = _option(5e-4, "its peak, in both stages")
    temperature: float = _option(1.0, "of the soft targets")
    language_modelling_weight: float = _option(0.0, "of language modelling beside the soft targets")
    hidden_weight: float = _option(0.0, "of the hidden states beside the soft targets")
    masked_share: float = _option(0.15, "of the tokens that a masked model is to predict")
    precision: str = _option("float32", "float32 or bfloat16")
    checkpoint_every: int = _option(100, "steps between checkpoints")
    seed: int = _option(0, "of start, order and masks")

    def __post_init__(self) -> None:
        for name in ("pretraining_steps", "steps"):
            if (value := getattr(self, name)) is not None and value < (name == "steps"):
                raise Refused.of_value(name, value, "use 1 or more" if name == "steps" else "use 0 or more")
        for name in ("language_modelling_weight", "hidden_weight"):
            if not 0 <= getattr(self, name) < math.inf:
                raise Refused.of_value(name, getattr(self, name), "use 0 or a number above")
        if not 0 < self.temperature < math.inf:
            raise Refused.of_value("temperature", self.temperature, "use a number above 0")
        if not 0 < self.masked_share < 1:
            raise Refused.of_value("masked_share", self.masked_share, "use a number between 0 and 1")
        if self.context is not None and self.context < 4:
            raise Refused.of_value("context", self.context, "use 4 or more tokens")
        self.loop(1)  # checks the rest

    def loop(self, epoch_steps: int) -> Loop:
        """Both stages."""
        stages = [epoch_steps if steps is None else steps for steps in (self.pretraining_steps, self.steps)]
        return Loop(
            stages=stages,
            batch=self.batch,
            seed=self.seed,
            peak_rate=self.learning_rate,
            checkpoint_every=self.checkpoint_every,
            precision=self.precision,
        )


@dataclass(frozen=True, kw_only=True)
class FineTuning:
    """How the two models of a pair learn; the defaults are what Snoswell et al. 2023 state, where they state it."""

    epochs: int = _option(5, "passes over a corpus")
    batch: int = _option(2, "rows that are in memory at a time")
    accumulation: int = _option(16, "batches a step: batch x accumulation is the effective batch, 32 in the paper")
    learning_rate: float = _option(5e-5, "its peak")
    context: int | None = _option(None, "tokens a row (default: the model's longest)")
    shortest: int = _option(100, "characters; texts below are left out")
    similarity: float = _option(0.9, "TF-IDF cosine from which two texts are the same")
    longest_repeat: int = _option(20, "characters; what repeats itself for longer is cut there")
    gradient_checkpointing: bool = _option(True, "save memory by computing activations twice")
    deepspeed: Path | None = _option(None, "a configuration file of DeepSpeed, which must be installed")
    precision: str = _option("float32", "float32 or bfloat16")
    checkpoint_every: int = _option(100, "steps between checkpoints")
    seed: int = _option(0, "of parts and order")

    def __post_init__(self) -> None:
        for name in ("epochs", "batch", "accumulation", "shortest", "longest_repeat"):
            if getattr(self, name) < 1:
                raise Refused.of_value(name, getattr(self, name), "use 1 or more")
        if not 0 < self.similarity <= 1:
            raise Refused.of_value("similarity", self.similarity, "use a number above 0, up to 1")
        if self.context is not None and self.context < 4:
            raise Refused.of_value("context", self.context, "use 4 or more tokens")
        self.loop(1)  # checks the rest

    def loop(self, rows: int) -> Loop:
        """All epochs of a corpus of so many rows."""
        return Loop(
            stages=[max(1, math.ceil(self.epochs * rows / (self.batch * self.accumulation)))],
            batch=self.batch,
            accumulation=self.accumulation,
            seed=self.seed,
            peak_rate=self.learning_rate,
            checkpoint_every=self.checkpoint_every,
            precision=self.precision,
            gradient_checkpointing=self.gradient_checkpointing,
            deepspeed=self.deepspeed,
        )
