"""Detoxify's classifiers, through the detoxify package: its own download, or a checkpoint of this machine.

The package's class loads weights and tokenizer, and its labels, sigmoid and truncation are kept; only the batches are
ours. It unpickles checkpoints (torch.load with weights_only=False), which can run any code: use its own download, or
a checkpoint that the operator of this machine installed, never one that a visitor sent.
"""

from pathlib import Path
from pickle import UnpicklingError

import torch
from detoxify import Detoxify

from scoring.language_models.loading import _quiet
from scoring.scorers.base import ScorerUnavailable
from scoring.scorers.encoder import LIBRARIES, Activation, EncoderScorer
from scoring.scorers.precision import Precision

VARIANTS = ("original", "unbiased", "multilingual", "original-small", "unbiased-small")


class DetoxifyScorer(EncoderScorer):
    """Attributes are the checkpoint's classes: toxicity, severe_toxicity, obscene, identity_attack, insult, ..."""

    def __init__(
        self,
        variant: str = "original",
        *,
        checkpoint: Path | None = None,
        config_folder: Path | None = None,
        precision: str = Precision.FLOAT32,
        device: torch.device | None = None,
    ) -> None:
        """Load `checkpoint` with the configuration and tokenizer in `config_folder`; without them, fetch `variant`.

        Raises ScorerUnavailable when it cannot be fetched or read, ValueError when only one of the two is given.
        """
        if (checkpoint is None) != (config_folder is None):
            raise ValueError("checkpoint and config_folder go together: give both, or neither to fetch the published")
        try:
            with _quiet():
                loaded = Detoxify(
                    variant,
                    checkpoint=checkpoint and str(checkpoint),
                    huggingface_config_path=config_folder and str(config_folder),
                )
        except (OSError, RuntimeError, ValueError, KeyError, TypeError, EOFError, UnpicklingError) as error:
            raise ScorerUnavailable(_remedy(variant, checkpoint, config_folder, error)) from error
        super().__init__(
            loaded.model,
            loaded.tokenizer,
            tuple(loaded.class_names),
            Activation.SIGMOID,
            precision=precision,
            device=device,
            libraries=(*LIBRARIES, "detoxify"),
        )


def _remedy(variant: str, checkpoint: Path | None, config_folder: Path | None, error: Exception) -> str:
    if checkpoint:
        return (
            f"checkpoint = {checkpoint} with config_folder = {config_folder} cannot be loaded ({error}): give a "
            "checkpoint that Detoxify's authors or its training code saved, and the folder with config.json and "
            "tokenizer files of the model under it"
        )
    return (
        f"detoxify-{variant} cannot be fetched ({error}): connect this machine to github.com and huggingface.co, or "
        "install the checkpoint and give its path as checkpoint and its model's folder as config_folder"
    )
