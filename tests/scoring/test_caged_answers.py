"""What a cage answers is believed only where it can be an answer to what was asked."""

import time
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from scoring.cage import CageBroken, CageLimits, CageOutOfMemory, CageTimeout, confinement, supervisor
from scoring.cage.models import CagedModel
from scoring.cage.pipe import HEAD
from scoring.cage.schemas import CONTINUATIONS, LIKELIHOODS, READINGS, TOKENS
from scoring.cage.supervisor import Answer, Cage, WorkRefused
from scoring.generation import ChatSettings, GenerationSettings
from scoring.language_models import BUNDLED
from scoring.likelihood import LikelihoodSettings

FOLDER = BUNDLED / "plumb-gpt2-l2-h128"
ARCHITECTURE = {
    "kind": "causal",
    "model_type": "gpt2",
    "class_name": "GPT2LMHeadModel",
    "family": "GPT-2",
    "parameters": 1000,
    "layers": 2,
    "heads": 2,
    "hidden_size": 8,
    "context": 128,
    "vocabulary": 50,
    "stored": 1000,
}
OPENED: dict[str, Any] = {"files": ["config.json"], "architecture": ARCHITECTURE, "device": "cpu"}
TEXTS = ["one text", "another one"]
PROMPTS = pa.table({"id": ["a", "b"], "text": TEXTS})


class EndlessTalk:
    """A socket over which the same message comes without end, and nothing has to be waited for."""

    def __init__(self, message: bytes) -> None:
        self._content = cycle(HEAD.pack(len(message), 0) + message)
        self._began_at = time.monotonic()

    def settimeout(self, _seconds: float) -> None:
        """It needs none."""

    def send(self, content: memoryview) -> int:
        return len(content)

    def recv_into(self, place: memoryview) -> int:
        assert time.monotonic() - self._began_at < 30, "nobody looks at the limits"
        place[:] = bytes(islice(self._content, len(place)))
        return len(place)


def test_a_cage_that_never_stops_to_talk_is_ended_all_the_same() -> None:
    talk: Any = EndlessTalk(b'{"stage": "some work"}')
    cage = Cage(talk, talk, CageLimits(seconds=0.1), lambda: None)
    with pytest.raises(CageTimeout, match=r"longer than the 0\.1 s"):
        cage.ask("work", {})


@dataclass
class StandInCage:
    """A cage that gives one answer, whatever it is asked."""

    answer: Answer
    stage: str = "some work"

    def ask(self, *_: object) -> Answer:
        return self.answer


def model_that_answers(values: dict[str, Any], table: pa.Table | None = None) -> CagedModel:
    """A model in a cage that gives this answer."""
    return CagedModel(StandInCage(Answer(values, table)), FOLDER, "a model", OPENED)  # type: ignore[arg-type]


READING = {"pieces": 7, "ordinary": ["eos_token_id"]}
READING_ROWS = {"changed": [False, True], "rate": [2.0, 3.5]}


def test_a_sound_reading_is_believed() -> None:
    reading = model_that_answers(READING, pa.table(READING_ROWS, schema=READINGS)).read_texts(TEXTS)
    assert (reading.changed.tolist(), reading.rates.tolist()) == ([False, True], [2.0, 3.5])
    assert (reading.pieces, reading.ordinary) == (7, ("eos_token_id",))


@pytest.mark.parametrize(
    ("values", "rows"),
    [
        ({}, {"changed": [False], "rate": [2.0]}),
        ({}, {"changed": [False, None]}),
        ({}, {"rate": [2.0, None]}),
        ({}, {"rate": [2.0, np.inf]}),
        ({"pieces": None}, {}),
        ({"pieces": -1}, {}),
        ({"pieces": 2**31}, {}),
        ({"pieces": True}, {}),
        ({"ordinary": ["a name that no configuration has"]}, {}),
        ({"ordinary": "eos_token_id"}, {}),
    ],
)
def test_no_other_reading_is(values: dict[str, Any], rows: dict[str, list[Any]]) -> None:
    model = model_that_answers(READING | values, pa.table(READING_ROWS | rows, schema=READINGS))
    with pytest.raises(CageBroken):
        model.read_texts(TEXTS)


@pytest.mark.parametrize("value", ["words", {}, {"kind": "x"}, {"kind": "x", "message": "y", "about": 1}])
def test_a_refusal_that_says_nothing_is_not_believed(value: Any) -> None:
    with pytest.raises(CageBroken, match="a refusal that says nothing"):
        supervisor._refusal(value)


def test_a_reading_without_a_table_is_not_believed() -> None:
    with pytest.raises(CageBroken, match="without a table"):
        model_that_answers(READING).read_texts(TEXTS)


def likelihood_rows(count: int, reason: str | None = None) -> pa.Table:
    """An answer about so many texts, each of two tokens or with this reason."""
    values = [None if reason else [-1.0, -2.0]] * count
    columns = {"token_log_likelihoods": values, "unscorable": [reason] * count, "windows": [1] * count}
    return pa.table(columns, schema=LIKELIHOODS)


def test_likelihoods_get_the_ids_of_the_texts() -> None:
    table = model_that_answers({}, likelihood_rows(2)).likelihoods(["a", "b"], TEXTS, LikelihoodSettings())
    assert table["id"].to_pylist() == ["a", "b"]
    assert table["token_log_likelihoods"].to_pylist() == [[-1.0, -2.0]] * 2


@pytest.mark.parametrize("rows", [likelihood_rows(1), likelihood_rows(3), likelihood_rows(2, "a reason of its own")])
def test_likelihoods_of_other_texts_or_with_other_reasons_are_not_believed(rows: pa.Table) -> None:
    with pytest.raises(CageBroken, match="likelihoods of other texts, or with reasons that are none"):
        model_that_answers({}, rows).likelihoods(["a", "b"], TEXTS, LikelihoodSettings())


def test_tokens_are_those_of_each_text() -> None:
    model = model_that_answers({}, pa.table({"tokens": [[0, 5], []]}, schema=TOKENS))
    assert model.token_ids(TEXTS, LikelihoodSettings()).to_pylist() == [[0, 5], []]


@pytest.mark.parametrize("tokens", [[[1]], [[1], None], [[1], [None]], [[1], [-1]]])
def test_tokens_of_other_texts_or_that_are_none_are_not_believed(tokens: list[Any]) -> None:
    model = model_that_answers({}, pa.table({"tokens": tokens}, schema=TOKENS))
    with pytest.raises(CageBroken, match="tokens of other texts, or that are none"):
        model.token_ids(TEXTS, LikelihoodSettings())


CHAT = {"template": "0" * 64, "system_role": "system", "opening": ""}


def test_a_known_chat_is_believed() -> None:
    assert model_that_answers(CHAT).chat_format(ChatSettings()) == CHAT


@pytest.mark.parametrize(
    "change", [{"template": "0" * 63}, {"template": None}, {"system_role": "another"}, {"opening": "Sure, here is"}]
)
def test_no_other_chat_is(change: dict[str, Any]) -> None:
    with pytest.raises(CageBroken):
        model_that_answers(CHAT | change).chat_format(ChatSettings())


def continuation_rows(count: int, finish: str | None = "length") -> pa.Table:
    """So many continuations that ended in this way."""
    columns = {"text": "a continuation", "n_tokens": 3, "finish": finish, "error": None, "truncated": False}
    return pa.table({name: [columns.get(name)] * count for name in CONTINUATIONS.names}, schema=CONTINUATIONS)


def ask_for_continuations(rows: pa.Table) -> pa.Table:
    """What comes of this answer to a request of two continuations of each prompt."""
    return model_that_answers({}, rows).continuations(PROMPTS, GenerationSettings(k=2), False, lambda _: None)


def test_continuations_get_the_ids_of_the_prompts_in_their_order() -> None:
    table = ask_for_continuations(continuation_rows(4))
    assert table["prompt_id"].to_pylist() == ["a", "a", "b", "b"]
    assert table["index"].to_pylist() == [0, 1, 0, 1]


@pytest.mark.parametrize("rows", [continuation_rows(3), continuation_rows(5), continuation_rows(4, "bored")])
def test_continuations_of_other_prompts_or_with_another_end_are_not_believed(rows: pa.Table) -> None:
    with pytest.raises(CageBroken):
        ask_for_continuations(rows)


def spoil_architecture(**change: Any) -> dict[str, Any]:
    """What is said of a model that was opened, with another architecture."""
    return OPENED | {"architecture": ARCHITECTURE | change}


@pytest.mark.parametrize(
    "opened",
    [
        OPENED | {"files": ["a file that is not in the folder"]},
        OPENED | {"files": None},
        OPENED | {"architecture": None},
        OPENED | {"architecture": {"kind": "causal"}},
        spoil_architecture(kind=1),
        spoil_architecture(family="x" * 200),
        spoil_architecture(parameters=-1),
        spoil_architecture(parameters=2**53),
        spoil_architecture(context=True),
        spoil_architecture(vocabulary=1.5),
    ],
)
def test_a_model_that_describes_itself_as_none_can_is_not_opened(opened: dict[str, Any]) -> None:
    with pytest.raises(CageBroken):
        CagedModel(StandInCage(Answer({})), FOLDER, "a model", opened)  # type: ignore[arg-type]


SELF_TEST = {
    "version": 1,
    "precision": "float32",
    "texts": 3,
    "tokens": 20,
    "window": 8,
    "difference": 1e-6,
    "continued": 4,
    "shortfall": 0.0,
    "limit": 0.001,
    "seconds": 1.5,
}


def test_a_report_of_a_self_test_is_believed() -> None:
    assert model_that_answers(SELF_TEST).self_test().difference == 1e-6


@pytest.mark.parametrize(
    "change",
    [
        {"precision": 32},
        {"precision": "x" * 40},
        {"difference": -1e-6},
        {"tokens": True},
        {"limit": 2.0**53},
        {"more": 1},
    ],
)
def test_no_other_report_is(change: dict[str, Any]) -> None:
    with pytest.raises(CageBroken):
        model_that_answers(SELF_TEST | change).self_test()


def test_graphics_cards_can_be_used_where_they_are_asked_for_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(confinement, "GRAPHICS", tmp_path)
    for name in ("nvidiactl", "nvidia0", "sda"):
        (tmp_path / name).touch()
    plain = confinement.devices_for(cuda=False)
    assert [str(device) for device in plain] == list(confinement.DEVICES)
    assert confinement.devices_for(cuda=True) == [*plain, tmp_path / "nvidia0", tmp_path / "nvidiactl"]


@dataclass
class RefusingCage:
    """A cage in which whatever is asked ends with an error of this kind."""

    kind: str
    stage: str = "some work"

    def ask(self, *_: object) -> Answer:
        raise WorkRefused(self.kind, "Tried to allocate 2.00 GiB", {})


@pytest.mark.parametrize(("kind", "error"), [("MemoryError", CageOutOfMemory), ("OutOfMemoryError", MemoryError)])
def test_memory_that_work_asks_for_beyond_its_own_is_its_fault_and_a_full_device_is_the_hosts(
    kind: str, error: type[Exception]
) -> None:
    model = CagedModel(RefusingCage(kind), FOLDER, "a model", OPENED)  # type: ignore[arg-type]
    with pytest.raises(error):
        model.continuations(PROMPTS, GenerationSettings(k=1), False, lambda _: None)
