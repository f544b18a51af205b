"""What a model is, from its files alone: the part of resolving that reads what strangers wrote."""

from pathlib import Path

from scoring.language_models.architecture import Architecture, inspect
from scoring.language_models.files import licence_of_card, licence_of_gguf, read_config, read_gguf


def describe(path: Path, name: str, files: list[str]) -> tuple[Architecture, str]:
    """The architecture of the model in a folder or a GGUF file, and the licence that it names, "" where it names none.

    `name`: what people know it as; `files`: the names of all that belongs to it. Raises ModelRefused.
    """
    if path.is_dir():
        return inspect(read_config(path, name, files)), licence_of_card(path / "README.md")
    return inspect(read_gguf(path)), licence_of_gguf(path)
