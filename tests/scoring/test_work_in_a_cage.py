"""What a cage says it is at, which is what a submitter reads when that ends its process."""

from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from scoring.cage.model_work import VERBS
from scoring.cage.room import Room
from scoring.cage.schemas import CONTINUATIONS, LIKELIHOODS, READINGS, TOKENS, passages_table
from scoring.generation import ChatSettings, GenerationSettings
from scoring.likelihood import LikelihoodSettings
from tests.chatting import chat_model

SETTINGS = {"settings": asdict(LikelihoodSettings())}
TEXTS = pa.table({"text": ["The river.", "And the sea."]})
PROMPTS = pa.table({"id": ["1"], "text": ["The river"]})


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return chat_model(tmp_path_factory.mktemp("cage") / "tuned")


def do(path: Path, *requests: tuple[str, dict[str, Any], pa.Table | None]) -> list[list[Any]]:
    """Of each request the stages that were entered, the names of its values, and the schema of its table."""
    messages: list[dict[str, Any]] = []
    room = Room(SimpleNamespace(send=messages.append))  # type: ignore[arg-type]
    files = {"path": str(path), "name": "tuned", "files": ["model.safetensors"]}
    answers = []
    for verb, arguments, table in requests:
        messages.clear()
        values, rows = VERBS[verb](room, files | arguments, table)
        stages = [message["stage"] for message in messages if "stage" in message]
        answers.append([stages, sorted(values), rows.schema if rows is not None else None])
    return answers


def test_each_kind_of_work_says_what_it_is_at_and_answers_with_what_is_asked_for(path: Path) -> None:
    continuing = {"settings": asdict(GenerationSettings(k=1, max_new_tokens=2))}
    described, opened, tested, special, read, ids, scored, chat, continued, with_perplexities = do(
        path,
        ("describe", {}, None),
        ("open", {"precision": "float32"}, None),
        ("self test", {}, None),
        ("special tokens", SETTINGS, None),
        ("read texts", {}, TEXTS),
        ("token ids", SETTINGS, TEXTS),
        ("likelihoods", SETTINGS, passages_table(TEXTS["text"].to_pylist())),
        ("chat format", {"settings": asdict(ChatSettings())}, None),
        ("continuations", continuing | {"log_perplexities": False}, PROMPTS),
        ("continuations", continuing | {"log_perplexities": True}, PROMPTS),
    )
    details = ["architecture", "chat_template", "licence", "weight_format", "weights"]
    assert described == [["reading the configuration"], details, None]
    assert opened == [["loading the model", "trying the tokenizer"], ["architecture", "device", "files"], None]
    assert tested[0] == ["comparing the engine with the model's plain forward"]
    assert special == [[], ["shown"], None]
    assert read == [["reading the texts with the tokenizer"], ["ordinary", "pieces"], READINGS]
    assert ids == [["reading the texts with the tokenizer"], [], TOKENS]
    assert scored == [["computing likelihoods"], [], LIKELIHOODS]
    assert chat == [["rendering the chat template"], ["opening", "system_role", "template"], None]
    assert continued == [["continuing prompts"], [], CONTINUATIONS]
    assert with_perplexities == [["continuing prompts", "computing likelihoods"], [], CONTINUATIONS]


def test_without_a_model_there_is_nothing_to_work_with(path: Path) -> None:
    with pytest.raises(ValueError, match="no model was opened"):
        do(path, ("self test", {}, None))
