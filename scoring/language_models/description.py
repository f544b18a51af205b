"""What a model is, as data: no library that runs models is needed to hold it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

Kind = Literal["causal", "masked", "permutation"]


@dataclass(frozen=True, slots=True)
class Architecture:
    """Kind of likelihood, names and sizes of a model.

    `parameters` counts tied weights once. `heads` is 0 for a model without attention. `context` is the longest text
    in tokens, special tokens included. `stored` is how many numbers its files may hold: tied weights each time, and
    buffers, which some files hold as well; 0 where nobody counted.
    """

    kind: Kind
    model_type: str
    class_name: str
    family: str
    parameters: int
    layers: int
    heads: int
    hidden_size: int
    context: int
    vocabulary: int
    stored: int = 0


class Description(NamedTuple):
    """What a model is, the licence that it names, "" where it names none, and the names of its files of weights.

    chat_template: the sha256 of the template in its files, "" where there is none. weight_format: how its weights are
    stored, "" where nothing says.
    """

    architecture: Architecture
    licence: str
    weights: tuple[str, ...]
    chat_template: str = ""
    weight_format: str = ""


@dataclass(frozen=True, slots=True)
class ResolvedModel:
    """A model, pinned.

    `source` is hub, folder or gguf; `location` a hub id or an absolute path; `revision` a commit of 40 hex digits or
    `sha256:...` of the files; `licence` is "" when unknown; `weights` are the bytes of them that a hub declares;
    `chat_template` is the sha256 of the template in its files, "" where there is none; `weight_format` is how weights
    are stored, as in "bfloat16", "FP8" or "GGUF Q4_K_M", "" where nothing says.
    """

    source: str
    location: str
    revision: str
    architecture: Architecture
    licence: str
    weights: int = 0
    chat_template: str = ""
    weight_format: str = ""

    @property
    def has_chat_template(self) -> bool:
        """Whether it can be prompted as a chat."""
        return bool(self.chat_template)


# From the path of a folder or GGUF file, the name people know it by and the names of its files: what the model is.
# `describing.describe` reads them in this process, `scoring.cage.open_reader` in one of its own.
Describe = Callable[[Path, str, list[str]], Description]
