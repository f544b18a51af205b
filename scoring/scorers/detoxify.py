"""Detoxify's classifiers, through the detoxify package: its own download, or a checkpoint of this machine.

The package's class makes model and tokenizer, and its labels, sigmoid and truncation are kept; only the batches are
ours. The class unpickles what it loads (torch.load with weights_only=False), which can run any code. Its own download
is trusted as the package is; a checkpoint of this machine is reduced to tensors and plain values before the class
sees it. Still, it is for the operator to install, never for a visitor to send.
"""

import io
from pathlib import Path
from pickle import UnpicklingError
from tempfile import TemporaryDirectory
from typing import Any

import torch
from detoxify import Detoxify
from detoxify.detoxify import MODEL_URLS
from transformers import AutoConfig

from scoring.language_models.loading import quiet
from scoring.scorers.base import ScorerUnavailable
from scoring.scorers.encoder import LIBRARIES, Activation, EncoderScorer
from scoring.scorers.labels import declare_labels
from scoring.scorers.precision import Precision

_UNUSED = ("position_ids", ".pooler.")  # saved by the older transformers that Detoxify was trained with
_TOKENIZER_FILES = (".json", ".txt", ".model")


class DetoxifyScorer(EncoderScorer):
    """Attributes are the checkpoint's classes: toxicity, severe_toxicity, obscene, identity_attack, insult, ..."""

    def __init__(
        self,
        variant: str = "original",
        *,
        checkpoint: Path | None = None,
        config_folder: Path | None = None,
        may_fetch: bool = True,
        precision: str = Precision.FLOAT32,
        device: torch.device | None = None,
    ) -> None:
        """Load `checkpoint` with the configuration and tokenizer in `config_folder`; without them, fetch `variant`.

        Raises ScorerUnavailable when it cannot be fetched or read, or would have to be fetched and may not be;
        ValueError when only one of the two is given or a class is of no known harm.
        """
        if (checkpoint is None) != (config_folder is None):
            raise ValueError("checkpoint and config_folder go together: give both, or neither to fetch the published")
        if not (checkpoint or may_fetch or _cached_checkpoint(variant).is_file()):
            raise ScorerUnavailable(
                f"detoxify-{variant} is not on this machine: it is fetched when something is to be scored"
            )
        try:
            with quiet():
                detoxify = _local(checkpoint, config_folder) if checkpoint and config_folder else Detoxify(variant)
        except (OSError, RuntimeError, ValueError, LookupError, TypeError, EOFError, UnpicklingError) as error:
            raise ScorerUnavailable(_remedy(variant, checkpoint, config_folder, error)) from error
        source = str(checkpoint or f"the checkpoint of detoxify-{variant}")
        attributes = declare_labels(detoxify.class_names, {}, source, exclusive=False)
        super().__init__(
            detoxify.model,
            detoxify.tokenizer,
            attributes,
            Activation.SIGMOID,
            precision=precision,
            device=device,
            libraries=(*LIBRARIES, "detoxify"),
        )


def _local(checkpoint: Path, config_folder: Path) -> Any:
    """A Detoxify of files of this machine, without a hub. Raises whatever reading them raises."""
    content = torch.load(checkpoint, map_location="cpu", weights_only=True)
    arch = content["config"]["arch"]["args"]
    with TemporaryDirectory(prefix="plumbline-") as folder:
        for path in config_folder.resolve().iterdir():
            if path.suffix in _TOKENIZER_FILES and path.name != "config.json":
                (Path(folder) / path.name).symlink_to(path)
        # The class takes the number of outputs from the folder, where a plain encoder's configuration has another.
        config = AutoConfig.from_pretrained(config_folder, num_labels=arch["num_classes"], local_files_only=True)
        config.save_pretrained(folder)
        # It asks a hub for this name, although it then uses the folder.
        arch["model_type"] = folder
        plain = io.BytesIO()
        torch.save({"config": content["config"], "state_dict": content["state_dict"]}, plain)
        plain.seek(0)
        detoxify = Detoxify(checkpoint=plain, huggingface_config_path=folder)
    # transformers fills what is missing with random numbers and leaves out what it has no place for, without a word.
    strange = sorted(
        name
        for name in set(detoxify.model.state_dict()) ^ set(content["state_dict"])
        if not any(part in name for part in _UNUSED)
    )
    if strange:
        raise ValueError(f"{len(strange)} parameters are in one and not in the other, {', '.join(strange[:3])}")
    return detoxify


def _cached_checkpoint(variant: str) -> Path:
    """Where the package's download of a variant lies, once it was made."""
    return Path(torch.hub.get_dir(), "checkpoints", str(MODEL_URLS[variant]).rpartition("/")[2])


def _remedy(variant: str, checkpoint: Path | None, config_folder: Path | None, error: Exception) -> str:
    if checkpoint:
        return (
            f"checkpoint = {checkpoint} with config_folder = {config_folder} cannot be loaded ({error}): give a "
            "checkpoint of Detoxify (config and state_dict, nothing else), and the folder with config.json and the "
            "tokenizer's files of the model that it was made from"
        )
    return (
        f"detoxify-{variant} cannot be fetched ({error}): connect this machine to github.com and huggingface.co, or "
        "install the checkpoint and give its path as checkpoint and its model's folder as config_folder"
    )
