"""A bundled miniature with a chat template: what a tuned model looks like to the board."""

import json
import shutil
from pathlib import Path

from scoring.language_models import BUNDLED

SMALLEST = "plumb-gpt2-l2-h128"
TEMPLATE = (
    "{% for message in messages %}[{{ message.role }}] {{ message.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)
WITHOUT_SYSTEM = "{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}" + TEMPLATE


def chat_model(folder: Path, template: object = TEMPLATE, file: str = "tokenizer_config.json") -> Path:
    """The smallest bundled model in `folder`, with `template` in one of its files."""
    shutil.copytree(BUNDLED / SMALLEST, folder)
    path = folder / file
    if path.suffix == ".json":
        content = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps(content | {"chat_template": template}))
    else:
        path.write_text(str(template))
    return folder
