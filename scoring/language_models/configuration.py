"""The configuration of a model: read within limits, checked number by number, and only then given to transformers."""

import re
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any, NamedTuple

from scoring.language_models.bounded_json import MB, read_json, walk
from scoring.language_models.quantisation import find_quantisation
from scoring.language_models.refusals import ModelRefused

if TYPE_CHECKING:
    from transformers import PretrainedConfig

MOST_BYTES = 2 * MB
MOST_VALUES = 100_000
MOST_LAYERS = 1000  # building millions of them would keep a worker busy for hours, and no language model has them
MOST_LABELS = 10_000
MOST_EXPERTS_IN_ALL = 2**16  # over all layers: each may be a module of its own


class Range(NamedTuple):
    """Numbers that a key of a configuration may have; `keys` matches the whole key."""

    keys: re.Pattern[str]
    low: int
    high: int


def _range(keys: str, low: int, high: int) -> Range:
    return Range(re.compile(keys), low, high)


# The first that matches counts. -1 often stands for "as the other one", and 0 for "none".
RANGES = (
    _range(r"num_labels", 0, MOST_LABELS),
    _range(r"vocab_size", 1, 2**22),
    _range(r"num_hidden_layers|n_layers?|num_layers", 1, MOST_LAYERS),
    _range(r"(?:.*_)?(?:num|n)_(?:.*_)?(?:layers?|blocks|groups)|(?:.*_)?layers", 0, MOST_LAYERS),
    _range(r"num_attention_heads|n_heads?", 0, 4096),
    _range(r"(?:.*_)?(?:num|n)_(?:.*_)?heads?|(?:.*_)?attention_heads", -1, 4096),
    _range(r"(?:.*_)?(?:num|n)_(?:.*_)?experts?(?:_.*)?|(?:num|n)_experts?", 0, 4096),
    _range(
        r"max_position_embeddings|n_positions|n_ctx|max_seq_len|max_sequence_length|seq_length|"
        r"original_max_position_embeddings",
        -1,
        2**24,
    ),
    _range(r"hidden_size|n_embd|d_model|dim|hidden_dim|embedding_size|n_inner|intermediate_size|ffn_dim", -1, 2**20),
    _range(r".*_(?:size|dim|rank)|[dn]_(?:ff|head|kv|state|inner)|type_vocab_size", -1, 2**22),
)
# The sizes that no model can have without.
POSITIVE = {"hidden_size", "n_embd", "d_model"}


def read_configuration(folder: Path, name: str) -> "PretrainedConfig":
    """The configuration in `folder` of the model that people know as `name`.

    Raises ModelRefused where it is out of bounds, names code of its own, is quantised in a way that is not read, or no
    architecture that transformers knows.
    """
    content = read_json(folder / "config.json", name, MOST_BYTES, MOST_VALUES)
    refuse_code(name, "config.json", content)
    find_quantisation(content, name)
    check_numbers(content, "config.json", name)
    if not isinstance(content.get("architectures", []), list | None):
        raise ModelRefused(f"config.json of {name} gives architectures that are no list: correct it")
    from transformers import AutoConfig  # takes seconds, and whoever fetches files needs only what is above

    try:
        config: PretrainedConfig = AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    except Exception as error:  # a configuration is anyone's text, and reading it raises anything
        raise ModelRefused(
            f"config.json of {name} names no architecture that transformers knows ({briefly(error)}): correct it, or "
            "use a model whose architecture is part of transformers"
        ) from error
    return config


def refuse_code(name: str, file: str, content: dict[str, Any]) -> None:
    """Raise ModelRefused where the file names code of the model's own."""
    # Without its code a tokenizer would quietly be read as another one, which cuts texts differently.
    if "auto_map" in content:
        raise ModelRefused(
            f"{name} needs code of its own to run (auto_map in {file}), which is never run here: use a model whose "
            "architecture and tokenizer are part of transformers"
        )


def check_numbers(content: dict[str, Any], file: str, name: str) -> None:
    """Raise ModelRefused, with the key, the value and its range, where a size in `content` is no possible one."""
    layers = experts = 1
    for key, value in walk(content, file, name):
        if value is None or (isinstance(value, str) and key not in POSITIVE):
            continue
        bounds = next((bounds for bounds in RANGES if bounds.keys.fullmatch(key)), None)
        if bounds is None:
            continue
        low = 1 if key in POSITIVE else bounds.low
        if isinstance(value, bool | str) or not low <= value <= bounds.high:
            value_text = repr(shorten(str(value), 40)) if isinstance(value, bool | str) else f"{value:,}"
            raise ModelRefused(
                f"{file} of {name} gives {key} = {value_text}, and {low:,} to {bounds.high:,} are accepted: correct it"
            )
        if bounds.high == MOST_LAYERS:
            layers = max(layers, int(value))
        elif "expert" in key:
            experts = max(experts, int(value))
    if layers * experts > MOST_EXPERTS_IN_ALL:
        raise ModelRefused(
            f"{file} of {name} gives {layers:,} layers of {experts:,} experts, and {MOST_EXPERTS_IN_ALL:,} experts in "
            "all are accepted: correct it"
        )
    for key in ("id2label", "label2id"):
        if isinstance(content.get(key), dict | list) and len(content[key]) > MOST_LABELS:
            raise ModelRefused(f"{file} of {name} has more than {MOST_LABELS:,} labels in {key}: shorten it")


def briefly(error: BaseException) -> str:
    """What an error says, in one line that leaves room for the remedy."""
    return shorten(str(error), 160, placeholder=" ...")
