"""Pickled weights, read once and written as safetensors; scoring never reads a pickle.

Whatever is unpickled is tensors and plain values alone: anything else is refused, and no code runs.
"""

import io
import json
import shutil
from copy import deepcopy
from pathlib import Path
from pickle import UnpicklingError
from tempfile import TemporaryDirectory
from typing import Any

import torch
from detoxify import Detoxify
from detoxify.detoxify import MODEL_URLS
from safetensors.torch import save_file
from transformers import AutoConfig

from scoring.language_models.loading import quiet
from scoring.language_models.package import LIMITS
from scoring.language_models.weights import INDEX, WHOLE
from scoring.scorers.base import ScorerUnavailable
from scoring.scorers.detoxify import CLASSES, published_folder

PICKLE = "pytorch_model.bin"
UNREADABLE = (OSError, RuntimeError, ValueError, LookupError, TypeError, EOFError, UnpicklingError)
_UNUSED = ("position_ids", ".pooler.")  # saved by the older transformers that Detoxify was trained with
_TOKENIZER_FILES = (".json", ".txt", ".model")


def convert_detoxify(source: Path, target: Path) -> Path:
    """The folder of a Detoxify without pickles: `source`, or `target`, to which its checkpoint is converted.

    source: with one checkpoint, *.ckpt, and config.json and tokenizer of the model that it was made from. Raises
    ScorerUnavailable, with a remedy.
    """
    if (source / WHOLE).is_file() and (source / CLASSES).is_file():
        return source
    checkpoints = sorted(source.glob("*.ckpt"))
    if len(checkpoints) != 1:
        raise ScorerUnavailable(
            f"{source} holds {len(checkpoints)} files named *.ckpt: put one checkpoint of Detoxify there"
        )
    try:
        with quiet(), TemporaryDirectory(prefix="plumbline-") as folder:
            content = torch.load(checkpoints[0], map_location="cpu", weights_only=True)
            _stage(source, Path(folder), content["config"]["arch"]["args"]["num_classes"])
            _write_detoxify(content, target, Path(folder))
    except UNREADABLE as error:
        raise ScorerUnavailable(
            f"{checkpoints[0]} cannot be loaded ({error}): give a checkpoint of Detoxify (config and state_dict, "
            "nothing else), and beside it config.json and the tokenizer's files of the model that it was made from"
        ) from error
    return target


def convert_published(variant: str) -> Path:
    """The folder of the package's own download of a variant, fetched and converted where that was not done before.

    Raises ScorerUnavailable, with a remedy.
    """
    target = published_folder(variant)
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with quiet(), TemporaryDirectory(prefix="detoxify-", dir=target.parent) as folder:
            content = torch.hub.load_state_dict_from_url(MODEL_URLS[variant], map_location="cpu", weights_only=True)
            _write_detoxify(content, Path(folder, variant))
            if not target.is_dir():  # another process may have been faster
                Path(folder, variant).rename(target)
    except UNREADABLE as error:
        raise ScorerUnavailable(
            f"detoxify-{variant} cannot be fetched ({error}): connect this machine to github.com and huggingface.co, "
            "or put its checkpoint, config.json and tokenizer into a folder and run `manage.py import_scorer "
            f"detoxify-{variant} FOLDER`"
        ) from error
    return target


def convert_classifier(source: Path, target: Path) -> Path:
    """The folder of a classifier without pickles: `source`, or `target`, to which pytorch_model.bin is converted.

    Raises ScorerUnavailable, with a remedy.
    """
    if not (source / PICKLE).is_file() or (source / WHOLE).is_file() or (source / INDEX).is_file():
        return source
    try:
        content = torch.load(source / PICKLE, map_location="cpu", weights_only=True)
        tensors = {name: tensor.clone().contiguous() for name, tensor in content.items()}  # safetensors shares nothing
        target.mkdir(parents=True, exist_ok=True)
        save_file(tensors, target / WHOLE, metadata={"format": "pt"})
    except (*UNREADABLE, AttributeError) as error:
        raise ScorerUnavailable(
            f"{source / PICKLE} cannot be loaded ({error}): give the weights of a classifier of transformers, tensors "
            "by name and nothing else"
        ) from error
    for name in LIMITS:
        if (source / name).is_file():
            shutil.copy(source / name, target / name)
    return target


def _stage(source: Path, folder: Path, output_count: int) -> None:
    """Configuration and tokenizer in `source`, as the package's class wants them."""
    for path in source.resolve().iterdir():
        if path.suffix in _TOKENIZER_FILES and path.name != "config.json":
            (folder / path.name).symlink_to(path)
    # The class takes the number of outputs from the folder, where a plain encoder's configuration has another.
    config = AutoConfig.from_pretrained(source, num_labels=output_count, local_files_only=True)
    config.save_pretrained(folder)


def _write_detoxify(content: dict[str, Any], target: Path, folder: Path | None = None) -> None:
    """The model that the package's class makes of a checkpoint. folder: of its configuration, in place of a hub's."""
    if folder:
        content["config"]["arch"]["args"]["model_type"] = str(folder)  # the class asks a hub for any other name
    plain = io.BytesIO()
    torch.save({"config": content["config"], "state_dict": content["state_dict"]}, plain)
    plain.seek(0)
    detoxify = Detoxify(checkpoint=plain, huggingface_config_path=str(folder) if folder else None)
    # transformers fills what is missing with random numbers and leaves out what it has no place for, without a word.
    strange = sorted(
        name
        for name in set(detoxify.model.state_dict()) ^ set(content["state_dict"])
        if not any(part in name for part in _UNUSED)
    )
    if strange:
        raise ValueError(f"{len(strange)} parameters are in one and not in the other, {', '.join(strange[:3])}")
    target.mkdir(parents=True, exist_ok=True)
    config = deepcopy(detoxify.model.config)  # saving the model names its class there, and so another fingerprint
    detoxify.model.save_pretrained(target)
    config.save_pretrained(target)
    detoxify.tokenizer.save_pretrained(target)
    (target / CLASSES).write_text(json.dumps({"classes": detoxify.class_names}), encoding="utf-8")
