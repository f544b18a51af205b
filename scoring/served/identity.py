"""What a server says of the model behind it, and whether that is still the same.

A server need not say anything, and what it says proves nothing. But a server that says something else than before is
another service, whatever it answers.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

Identity = dict[str, str]

OF_ANSWER = ("model", "system_fingerprint")  # in every answer of OpenAI's interface
# Where servers say more, without /v1: vLLM, llama.cpp, SGLang and TGI. What changes from call to call is left out.
PLACES: dict[str, tuple[str, ...]] = {
    "version": ("version",),
    "props": ("model_path", "build_info", "chat_template"),
    "get_model_info": ("model_path", "tokenizer_path"),
    "info": ("model_id", "model_sha", "model_dtype", "version"),
}
OF_MODEL = ("id", "root", "parent", "max_model_len", "owned_by")  # of an entry of /v1/models
LONGEST = 200  # characters of a value; longer ones, as templates, are named by their hash


def identity_of_answer(answer: Any) -> Identity:
    """What one answer says of the model that gave it; empty where it says nothing."""
    return _select("", answer, OF_ANSWER)


def describe_identity(identity: Mapping[str, str]) -> str | None:
    """The identity as it is stored with each text, JSON with sorted names; None where there is none."""
    return json.dumps(identity, sort_keys=True, ensure_ascii=False) if identity else None


def read_model_list(answer: Any, name: str) -> Identity:
    """What the answer of /v1/models says of the model called `name`."""
    entries = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(entries, list):
        return {}
    entry = next((entry for entry in entries if isinstance(entry, dict) and entry.get("id") == name), None)
    return _select("models.", entry, OF_MODEL)


def read_place(place: str, answer: Any) -> Identity:
    """What the answer at one of PLACES says."""
    return _select(f"{place}.", answer, PLACES[place])


def find_changes(earlier: Mapping[str, str], now: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """What is said otherwise than before, by name; silence is no other answer."""
    return {name: (earlier[name], now[name]) for name in earlier if name in now and now[name] != earlier[name]}


def describe_changes(changes: Mapping[str, tuple[str, str]]) -> str:
    """As in "system_fingerprint was fp_1 and is fp_2"."""
    return "; ".join(f"{name} was {earlier} and is {now}" for name, (earlier, now) in sorted(changes.items()))


def _select(prefix: str, answer: Any, names: tuple[str, ...]) -> Identity:
    values = answer if isinstance(answer, dict) else {}
    return {f"{prefix}{name}": _shorten(str(values[name])) for name in names if values.get(name) not in (None, "")}


def _shorten(value: str) -> str:
    return value if len(value) <= LONGEST else f"sha256:{hashlib.sha256(value.encode()).hexdigest()}"
