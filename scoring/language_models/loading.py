"""Loading: always safetensors or GGUF, never code of the model's own."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from huggingface_hub.utils.tqdm import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars
from safetensors import SafetensorError
from transformers import AutoTokenizer, PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import logging

from scoring.language_models.architecture import (
    TEXT_ALONE,
    TEXT_TENSORS,
    attention_of,
    auto_class_of,
    build_empty,
    inspect,
)
from scoring.language_models.chat_template import find_template
from scoring.language_models.configuration import briefly, read_configuration
from scoring.language_models.description import Architecture
from scoring.language_models.files import alone, read_gguf
from scoring.language_models.hub import PUBLIC_HUB
from scoring.language_models.package import read_package
from scoring.language_models.placing import place
from scoring.language_models.precision import Precision
from scoring.language_models.quantisation import check_stored, finish, is_quantised, prepare_configuration
from scoring.language_models.refusals import ModelRefused
from scoring.language_models.spreading import free_on_devices, main_device, spread
from scoring.language_models.tokenizer_rules import check_tokenizer
from scoring.language_models.weights import refuse_excess


@dataclass(frozen=True)
class LoadedModel:
    """A model ready to score: weights of `precision` in evaluation mode on `device`, and its tokenizer.

    `files`: the names of those that it was loaded from.
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    architecture: Architecture
    device: torch.device
    precision: Precision
    files: tuple[str, ...] = ()


def load(
    source: str,
    location: str,
    revision: str,
    *,
    endpoint: str = PUBLIC_HUB,
    token: str | None = None,
    device: torch.device | None = None,
    precision: Precision = "float32",
) -> LoadedModel:
    """Load what `resolve` pinned, by default on the GPU where there is one.

    Weights are rounded to `precision` one by one, whatever they were stored as; quantised ones are multiplied out
    before. What transformers keeps in float32 for each architecture stays so.

    Raises RevisionChanged when the files are no longer the pinned ones, ModelRefused when they make no model, and
    HubUnavailable when the hub does not answer.
    """
    path = place(source, location, revision, endpoint=endpoint, token=token)
    return load_files(path, location, device=device, precision=precision)


def load_files(
    path: Path, name: str, *, device: torch.device | None = None, precision: Precision = "float32"
) -> LoadedModel:
    """The model in a folder or a GGUF file; `name` is what messages call it.

    device: by default the GPU where there is one; several, and the processor's memory last, for what one does not
    hold. Raises ModelRefused.
    """
    dtype = getattr(torch, precision)
    with quiet(), ExitStack() as stack:
        if path.is_dir():
            package = read_package(path, name)
            folder, tokenizer_options, safe = stack.enter_context(package.staged()), {}, {"use_safetensors": True}
            files = package.files
            config = read_configuration(folder, name)
            if not is_quantised(config):
                check_stored(package.weights, name)
            element_count = package.weights.count_elements(TEXT_TENSORS if config.model_type in TEXT_ALONE else ("",))
        else:
            folder, tokenizer_options, safe = stack.enter_context(alone(path)), {"gguf_file": path.name}, {}
            header, config = read_gguf(path)
            element_count, files = header.elements, (path.name,)
        architecture = inspect(config)
        refuse_excess(element_count, architecture.stored, name, architecture.class_name)
        tokenizer = read_tokenizer(folder, name, tokenizer_options)
        # What was hashed when the model was entered is what is used, whatever transformers takes from the files.
        tokenizer.chat_template = (find_template(folder, name) if path.is_dir() else header.chat_template) or None
        places = None
        if device is None and torch.cuda.is_available():
            places = spread(build_empty(config, architecture), dtype, free_on_devices(), name)
        options = {**tokenizer_options, **safe}
        if places:
            options |= {"device_map": places, "offload_buffers": True}
        try:
            model = _model(folder, config, architecture, dtype, options)
        except (ValueError, OSError, KeyError, ImportError, RuntimeError, SafetensorError) as error:
            if isinstance(error, ModelRefused):
                raise
            raise ModelRefused(f"{name} cannot be loaded: {briefly(error)}") from error
    if places:
        device = main_device(places)
    else:
        device = device or torch.device("cuda" if torch.cuda.is_available() else "cpu")
        model.to(device)
    model.eval()
    return LoadedModel(model, tokenizer, architecture, device, precision, files)


def read_tokenizer(folder: Path, location: str, options: dict[str, str]) -> PreTrainedTokenizerBase:
    """The tokenizer of `folder`, all parts of it reviewed; `location` is its name in messages.

    Raises ModelRefused where there is none, or one that holds what is not reviewed.
    """
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
            folder, trust_remote_code=False, local_files_only=True, **options
        )
    except Exception as error:  # a broken tokenizer file makes its readers raise anything
        raise ModelRefused(
            f"{location} has no tokenizer that can be read ({briefly(error)}): save the tokenizer beside the weights"
        ) from error
    if len(tokenizer) <= len(set(tokenizer.all_special_ids)):
        # Where files are missing, transformers makes a tokenizer to which every word is the same unknown one.
        raise ModelRefused(
            f"{location} has a tokenizer without a vocabulary: save the tokenizer beside the weights, all its files"
        )
    check_tokenizer(tokenizer, location)
    return tokenizer


def _model(
    folder: Path, config: PretrainedConfig, architecture: Architecture, dtype: torch.dtype, options: dict[str, object]
) -> PreTrainedModel:
    """The weights of `folder` as `dtype`. Raises ModelRefused when some are missing or do not fit."""
    method = prepare_configuration(config)
    if config.model_type in TEXT_ALONE:
        config = config.get_text_config(decoder=True)
        options = {**options, "key_mapping": {r"^model\.language_model\.": "model."}}
    model_and_report: Any = auto_class_of(
        architecture.model_type, architecture.kind, architecture.class_name
    ).from_pretrained(
        folder,
        config=config,
        dtype=dtype,
        attn_implementation=attention_of(architecture.class_name),
        ignore_mismatched_sizes=True,  # so that they are reported, and refused below
        output_loading_info=True,
        trust_remote_code=False,
        local_files_only=True,
        **options,
    )
    model, report = model_and_report
    # transformers fills these with random numbers, which would be ranked as if they had been learnt.
    absent = sorted(report["missing_keys"] | {name for name, *_ in report["mismatched_keys"]})
    if absent:
        raise ModelRefused(
            f"the weights lack {len(absent)} parameters of {architecture.class_name} ({', '.join(absent[:3])}): "
            "save the whole language model, its head included"
        )
    if method:
        model = finish(model, method, dtype, report["unexpected_keys"])
    return cast(PreTrainedModel, model)


@contextmanager
def quiet() -> Iterator[None]:
    """Without the progress bars and the reports of transformers and of the hub: what matters in them is raised."""
    level, bars, hub_bars = logging.get_verbosity(), logging.is_progress_bar_enabled(), not are_progress_bars_disabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    disable_progress_bars()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
        if hub_bars:
            enable_progress_bars()
