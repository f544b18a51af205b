"""Loading: always float32, always safetensors or GGUF, never code of the model's own."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from huggingface_hub.utils import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars
from transformers import AutoTokenizer, PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import logging

from scoring.language_models.architecture import Architecture, inspect
from scoring.language_models.files import alone, file_revision, folder_revision, read_config, read_gguf
from scoring.language_models.hub import PUBLIC_HUB, fetch
from scoring.language_models.refusals import ModelRefused, RevisionChanged


@dataclass(frozen=True)
class LoadedModel:
    """A model ready to score: float32 weights in evaluation mode on `device`, and its tokenizer."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    architecture: Architecture
    device: torch.device

    @property
    def context(self) -> int:
        """The longest text in tokens, special tokens included."""
        return self.architecture.context


def load(
    source: str,
    location: str,
    revision: str,
    *,
    endpoint: str = PUBLIC_HUB,
    token: str | None = None,
    device: torch.device | None = None,
) -> LoadedModel:
    """Load what `resolve` pinned, by default on the GPU where there is one.

    Raises RevisionChanged when the files are no longer the pinned ones, ModelRefused when they make no model, and
    HubUnavailable when the hub does not answer.
    """
    device = device or torch.device("cuda" if torch.cuda.is_available() else "cpu")
    with _quiet(), ExitStack() as stack:
        options: dict[str, object] = {"trust_remote_code": False}
        if source == "gguf":
            path = _unchanged(location, revision)
            config, _ = read_gguf(path)
            folder = stack.enter_context(alone(path))
            options["gguf_file"] = path.name
        else:
            folder = fetch(location, revision, endpoint, token) if source == "hub" else _unchanged(location, revision)
            config = read_config(folder, location, [path.name for path in folder.iterdir()])
            options["use_safetensors"] = True
        architecture = inspect(config)
        try:
            model = _model(folder, config, architecture, options)
            options.pop("use_safetensors", None)
            tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(folder, **options)
        except ModelRefused:
            raise
        except (ValueError, OSError, KeyError, RuntimeError, ImportError) as error:
            raise ModelRefused(f"{location} at {revision} cannot be loaded: {error}") from error
    return LoadedModel(model.to(device).eval(), tokenizer, architecture, device)
