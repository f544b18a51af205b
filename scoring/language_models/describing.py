"""What a model is, from its files alone: the part of resolving that reads what strangers wrote."""

from collections.abc import Collection
from pathlib import Path

from transformers import PretrainedConfig

from scoring.language_models.architecture import inspect
from scoring.language_models.chat_template import find_template, hash_template
from scoring.language_models.configuration import read_configuration
from scoring.language_models.description import Description
from scoring.language_models.files import licence_of_card, read_gguf
from scoring.language_models.package import check_files, list_files, read_package, refuse_unsafe
from scoring.language_models.quantisation import PLAIN_FORMATS, check_stored, name_format
from scoring.language_models.weights import Weights, choose_weights


def describe(path: Path, name: str, files: Collection[str]) -> Description:
    """What the model in a folder or a GGUF file is.

    `name`: what people know it as; `files`: the names of all that belongs to it, of which a look-up has only some at
    hand. Raises ModelRefused.
    """
    if not path.is_dir():
        header, config = read_gguf(path)
        template = hash_template(header.chat_template)
        return Description(inspect(config), header.licence, (path.name,), template, header.weight_format)
    refuse_unsafe(name, files)
    present = list_files(path)
    config = read_configuration(path, name)
    if present.keys() >= set(files):
        package = read_package(path, name)
        weights, weight_format = package.weights.files, format_of(config, package.weights, name)
    else:
        check_files(path, name, present)
        weights, weight_format = choose_weights(path, name, files), format_of(config)
    template = hash_template(find_template(path, name))
    return Description(inspect(config), licence_of_card(path / "README.md"), weights, template, weight_format)


def format_of(config: PretrainedConfig, weights: Weights | None = None, name: str = "") -> str:
    """What the format of weights is called: as they are stored, where they are at hand; else as a configuration says.

    Raises ModelRefused where it says nothing, and they are quantised.
    """
    quantisation = getattr(config, "quantization_config", None)
    if quantisation:
        return name_format(quantisation)
    if weights is None:
        return str(config.dtype).removeprefix("torch.") if config.dtype else ""
    check_stored(weights, name)
    kind = weights.kinds.most_common(1)[0][0]
    return PLAIN_FORMATS.get(kind, kind)
