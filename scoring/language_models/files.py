"""Models as files: GGUF files, and the licences that files name."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from huggingface_hub import ModelCard

from scoring.language_models.configuration import briefly
from scoring.language_models.gguf_header import GgufHeader, read_gguf_header
from scoring.language_models.refusals import ModelRefused

if TYPE_CHECKING:
    from transformers import PretrainedConfig

LONGEST_CARD = 2**20  # bytes


def read_gguf(path: Path) -> tuple[GgufHeader, "PretrainedConfig"]:
    """The header of a GGUF file and then, once it was checked, its configuration. Raises ModelRefused."""
    from transformers import AutoConfig  # takes seconds, and whoever reads cards needs only what is below

    header = read_gguf_header(path)
    try:
        with alone(path) as folder:
            config: PretrainedConfig = AutoConfig.from_pretrained(folder, gguf_file=path.name, local_files_only=True)
    except Exception as error:  # a broken file makes its readers raise anything
        raise ModelRefused(
            f"{path} cannot be read as the GGUF of a known architecture ({briefly(error)}): fetch it again, or use "
            "safetensors"
        ) from error
    return header, config


@contextmanager
def alone(path: Path) -> Iterator[Path]:
    """A folder that holds nothing but a link to `path`.

    A tokenizer.json or config.json beside a GGUF file would be read instead of what the pinned file says.
    """
    with TemporaryDirectory(prefix="plumbline-") as folder:
        (Path(folder) / path.name).symlink_to(path)
        yield Path(folder)


def licence_of_card(path: Path) -> str:
    """The licence that a README.md names in its front matter, "" where it names none."""
    if not path.is_file() or path.stat().st_size > LONGEST_CARD:
        return ""
    try:
        return str(ModelCard.load(path).data.to_dict().get("license") or "")
    except Exception:  # noqa: BLE001 - a card that cannot be read names no licence, and is no reason to refuse weights
        return ""
