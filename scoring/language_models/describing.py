"""What a model is, from its files alone: the part of resolving that reads what strangers wrote."""

from collections.abc import Collection
from pathlib import Path

from scoring.language_models.architecture import inspect
from scoring.language_models.chat_template import find_template, hash_template, template_of_gguf
from scoring.language_models.configuration import read_configuration
from scoring.language_models.description import Description
from scoring.language_models.files import licence_of_card, licence_of_gguf, read_gguf
from scoring.language_models.package import check_files, list_files, read_package, refuse_unsafe
from scoring.language_models.weights import choose_weights


def describe(path: Path, name: str, files: Collection[str]) -> Description:
    """What the model in a folder or a GGUF file is.

    `name`: what people know it as; `files`: the names of all that belongs to it, of which a look-up has only some at
    hand. Raises ModelRefused.
    """
    if not path.is_dir():
        architecture = inspect(read_gguf(path))
        return Description(architecture, licence_of_gguf(path), (path.name,), hash_template(template_of_gguf(path)))
    refuse_unsafe(name, files)
    present = list_files(path)
    if present.keys() >= set(files):
        weights = read_package(path, name).weights.files
    else:
        check_files(path, name, present)
        weights = choose_weights(path, name, files)
    template = hash_template(find_template(path, name))
    return Description(inspect(read_configuration(path, name)), licence_of_card(path / "README.md"), weights, template)
