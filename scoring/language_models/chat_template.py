"""The chat template that the files of a model hold, which turns messages into the text that it was tuned on."""

import hashlib
from pathlib import Path

from scoring.language_models.bounded_json import read_json
from scoring.language_models.package import LIMITS, MOST_VALUES
from scoring.language_models.refusals import ModelRefused

TEMPLATE, TEMPLATE_JSON, TOKENIZER_CONFIG = "chat_template.jinja", "chat_template.json", "tokenizer_config.json"
DEFAULT = "default"  # of several templates that have names


def find_template(folder: Path, name: str) -> str:
    """The template in the files of `folder`, "" where there is none; `name` is what messages call the model.

    A file of its own goes before tokenizer_config.json, as in transformers. Raises ModelRefused.
    """
    path = folder / TEMPLATE
    if path.is_file():
        try:
            return path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise ModelRefused(f"{TEMPLATE} of {name} is not UTF-8 ({error}): save it again") from error
    for file in (TOKENIZER_CONFIG, TEMPLATE_JSON):
        if (folder / file).is_file():
            template = _default_of(read_json(folder / file, name, LIMITS[file], MOST_VALUES).get("chat_template"))
            if template:
                return template
    return ""


def pin_date(template: str, date: str) -> str:
    """A template that gets `date` where it asks for today, which would change what a model is asked."""
    if "strftime_now" not in template:
        return template
    return f"{{%- macro strftime_now(format) -%}}{date}{{%- endmacro -%}}{template}"


def hash_template(template: str) -> str:
    """The sha256 of a template in hex; "" of none."""
    return hashlib.sha256(template.encode()).hexdigest() if template else ""


def _default_of(value: object) -> str:
    """The template itself, or the one called "default" of several."""
    if isinstance(value, list):
        templates = (one.get("template") for one in value if isinstance(one, dict) and one.get("name") == DEFAULT)
        value = next(templates, "")
    return value if isinstance(value, str) else ""
