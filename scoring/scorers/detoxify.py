"""Detoxify's classifiers, from safetensors: the package's own download, or files of this machine.

The package publishes pickles. `scoring.scorers.conversion` reads each once and writes what the package's class makes of
it; labels, sigmoid and truncation are the package's, the batches are ours.
"""

import json
from importlib import import_module
from pathlib import Path

import torch

from scoring.language_models import ModelRefused
from scoring.language_models.configuration import read_configuration
from scoring.language_models.loading import quiet, read_tokenizer
from scoring.language_models.package import read_package
from scoring.scorers.base import ScorerUnavailable
from scoring.scorers.classifier import load_classifier
from scoring.scorers.encoder import LIBRARIES, Activation, EncoderScorer
from scoring.scorers.labels import declare_labels
from scoring.scorers.precision import Precision

CLASSES = "detoxify.json"  # names the classes, in their order: there may be more outputs, which are not used


class DetoxifyScorer(EncoderScorer):
    """Attributes are the checkpoint's classes: toxicity, severe_toxicity, obscene, identity_attack, insult, ..."""

    def __init__(
        self,
        variant: str = "original",
        *,
        folder: Path | None = None,
        may_fetch: bool = True,
        precision: str = Precision.FLOAT32,
        device: torch.device | None = None,
    ) -> None:
        """Load the converted files in `folder`; without it those of the published `variant`, fetched if need be.

        Raises ScorerUnavailable where it cannot be fetched or read, or would have to be fetched and may not be, or is
        not converted; ValueError where a class is of no known harm.
        """
        place = folder or published_folder(variant)
        if folder is None and not place.is_dir():
            if not may_fetch:
                raise ScorerUnavailable(
                    f"detoxify-{variant} is not on this machine: it is fetched when something is to be scored"
                )
            place = import_module("scoring.scorers.conversion").convert_published(variant)
        try:
            names = json.loads((place / CLASSES).read_text(encoding="utf-8"))["classes"]
            with quiet(), read_package(place, str(place)).staged() as stage_folder:
                config = read_configuration(stage_folder, str(place))
                model = load_classifier(str(place), stage_folder, config)
                tokenizer = read_tokenizer(stage_folder, str(place), {})
        except (ModelRefused, OSError, ValueError, LookupError) as error:
            raise ScorerUnavailable(
                f"{place} holds no Detoxify that can be loaded ({error}): convert a checkpoint with `manage.py "
                f"import_scorer detoxify-{variant} FOLDER`, or delete the folder where it is the package's download"
            ) from error
        super().__init__(
            model,
            tokenizer,
            declare_labels(names, {}, str(place / CLASSES), exclusive=False),
            Activation.SIGMOID,
            precision=precision,
            device=device,
            libraries=(*LIBRARIES, "detoxify"),
        )


def published_folder(variant: str) -> Path:
    """Where the package's download of a variant lies, once it was fetched and converted."""
    return Path(torch.hub.get_dir(), "checkpoints", f"detoxify-{variant}")
