"""Parts of submitting that need no board: fields of files and numbers, ids of the hub, its patience, the choices."""

from datetime import timedelta
from threading import BoundedSemaphore, Event
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.core.files.uploadedfile import SimpleUploadedFile

from leaderboard.submissions.forms.outputs import LOG_ENDINGS, Number, OutputsForm, ToolForm, Upload
from leaderboard.submissions.services import patience, tool
from leaderboard.submissions.services.hub_ids import check_revision, read_reference
from leaderboard.submissions.services.metric_choices import ASSUMED, MEASURED, NO_CHAT, MetricChoice
from leaderboard.submissions.services.refusals import SubmissionRefused
from scoring.contributed.tools import Decoding, LogProvenance
from scoring.language_models import HubUnavailable
from scoring.refusals import Refused


def problems_of(field: Any, value: Any) -> list[str]:
    with pytest.raises(ValidationError) as refusal:
        field.clean(value)
    return refusal.value.messages


def test_a_number_lies_within_its_bounds_or_is_left_out():
    field = Number("Top-p", 0, 1)
    assert [field.clean(value) for value in ("0", "1", "0.25", "")] == [0.0, 1.0, 0.25, None]
    message = ["Give a number from 0 to 1, or leave it empty."]
    assert [problems_of(field, value) for value in ("-0.01", "1.01", "much")] == [message] * 3
    assert field.label == "Top-p"


@pytest.mark.parametrize(
    ("name", "least", "most", "below", "above"),
    [
        ("temperature", "0", "100", "-0.1", "100.1"),
        ("top_p", "0", "1", "-0.1", "1.1"),
        ("max_new_tokens", "1", "1000000", "0.5", "1000001"),
    ],
)
def test_a_setting_of_outputs_has_bounds_that_make_sense(name, least, most, below, above):
    field = OutputsForm.base_fields[name]
    assert [field.clean(least), field.clean(most), field.clean("")] == [float(least), float(most), None]
    for value in (below, above):
        assert problems_of(field, value) == [
            f"Give a number from {float(least):g} to {float(most):g}, or leave it empty."
        ]


def test_a_version_has_eighty_characters_at_most_and_an_account_of_the_making_three_hundred():
    for name, most in (("revision", 80), ("made_with", 300)):
        field = OutputsForm.base_fields[name]
        assert field.clean("x" * most) == "x" * most
        assert problems_of(field, "x" * (most + 1)) == [f"It has {most + 1} characters: use {most} at most."]


def test_a_log_has_from_one_to_a_hundred_continuations_of_each_prompt():
    field = ToolForm.base_fields["k"]
    assert [field.clean(value) for value in ("1", "100", "")] == [1, 100, None]
    message = ["Give a whole number from 1 to 100, or leave it empty."]
    assert [problems_of(field, value) for value in ("0", "101", "1.5")] == [message] * 3


def test_a_file_has_an_ending_that_says_what_it_is_and_so_many_bytes_at_most(settings):
    settings.UPLOAD_MOST_BYTES = 20
    field = Upload(endings=(".jsonl", ".jsonl.gz"), most=10)
    assert field.clean(SimpleUploadedFile("A.JSONL", b"x" * 10)).name == "A.JSONL"
    (problem,) = problems_of(field, SimpleUploadedFile("a.jsonl", b"x" * 11))
    assert problem.replace("\xa0", " ") == "The file has 11 bytes: send 10 bytes at most."
    assert problems_of(field, SimpleUploadedFile("a.json", b"x")) == [
        "The file's name ends in none of .jsonl, .jsonl.gz: say by it what it is."
    ]
    assert problems_of(field, None) == ["Choose the file to send."]
    assert problems_of(field, SimpleUploadedFile("a.jsonl", b"")) == [
        "The file is empty: send one with the outputs of every text."
    ]
    larger = Upload(endings=(".json",), required=False)
    assert larger.clean(None) is None
    assert larger.clean(SimpleUploadedFile("a.json", b"x" * 20)).size == 20
    assert len(problems_of(larger, SimpleUploadedFile("a.json", b"x" * 21))) == 1
    assert Upload(endings=LOG_ENDINGS).widget.attrs["accept"] == ".jsonl,.json,.eval,.zip,.gz"
    endings = OutputsForm.base_fields["file"].endings
    packed = {ending.removesuffix(".gz") for ending in endings if ending.endswith(".gz")}
    assert packed == {".jsonl", ".ndjson", ".csv"}
    assert set(endings) - {f"{ending}.gz" for ending in packed} == packed | {".parquet"}


# Ids of the hub


@pytest.mark.parametrize(
    ("written", "parts"),
    [
        ("https://huggingface.co/gpt2/tree/main/x", ("gpt2", "main")),
        ("https://huggingface.co/org/name/tree", ("org/name", "")),
        ("https://huggingface.co/org/name/commits/v2", ("org/name", "v2")),
        ("https://huggingface.co/org/name/settings/x", ("org/name", "")),
        ("https://huggingface.co/org/name/unknown/x", ("org/name", "")),
        ("HF.co/org/name/resolve/dev/a/b", ("org/name", "dev")),
        ("http://127.0.0.1:8080/org/name/tree/dev", ("org/name", "dev")),
        (f"o/{'x' * 94}", (f"o/{'x' * 94}", "")),
    ],
)
def test_of_an_address_the_id_and_the_revision_count(written, parts, settings):
    settings.HUB_ENDPOINT = "http://127.0.0.1:8080"
    assert read_reference(written) == parts


@pytest.mark.parametrize(
    ("written", "words"),
    [
        *(
            (f"https://huggingface.co/{folder}/a/b", f"is {thing}, not a model: write a model's id, as in org/name.")
            for folder, thing in {
                "datasets": "a dataset",
                "spaces": "a space",
                "collections": "a collection",
                "papers": "a paper",
            }.items()
        ),
        ("http://127.0.0.1/org/name", "is not an address of this board's hub, 127.0.0.1:8080: write the model's id"),
        ("https://huggingface.co:8443/a/b", "is not an address of this board's hub, 127.0.0.1:8080"),
        ("https://example.org/a/b", "is not an address of this board's hub, 127.0.0.1:8080"),
        ("http://[x/a", "is not an address ("),
        ("org/name.git", "is not a hub id: write it as in org/name"),
        ("https://huggingface.co", "is not a hub id"),
        (f"o/{'x' * 95}", "has 97 characters, and ids have 96 at most: check it."),
        ("https://huggingface.co/org/name/tree/a%20b", "'a b' is not a revision: write a branch, tag or commit"),
    ],
)
def test_what_is_no_model_of_the_hub_is_refused_by_what_it_is(written, words, settings):
    settings.HUB_ENDPOINT = "http://127.0.0.1:8080"
    with pytest.raises(Refused) as refusal:
        read_reference(written)
    assert words in str(refusal.value)


def test_a_revision_is_a_branch_a_tag_or_a_commit():
    assert [check_revision(text) for text in (" main ", "", "refs/pr/3", "v" * 100)] == [
        "main",
        "",
        "refs/pr/3",
        "v" * 100,
    ]
    for text in ("a..b", "a b", "-a", "v" * 101):
        with pytest.raises(Refused, match="is not a revision: write a branch, tag or commit, as in main"):
            check_revision(text)


def test_few_wait_at_a_time_for_a_hub_that_does_not_answer(monkeypatch):
    monkeypatch.setattr(patience, "_places", BoundedSemaphore(1))
    answers = Event()
    with pytest.raises(HubUnavailable, match=r"the hub did not answer within 0\.01 s"):
        patience.call_within(0.01, answers.wait)
    with pytest.raises(HubUnavailable, match="many are asking the hub at this moment"):
        patience.call_within(0.01, lambda: "late")
    answers.set()
    assert patience.call_within(10, lambda: "in time") == "in time", "the place is free again"


# The metrics to choose from


def choice(is_sampled: bool, has_chat: bool = False, seconds: float = 90.4, **values: Any) -> MetricChoice:
    outputs = SimpleNamespace(sampled=is_sampled)
    metric = SimpleNamespace(protocol=SimpleNamespace(outputs=outputs), has_chat_protocol=has_chat)
    return MetricChoice(**{"metric": metric, "obstacle": "", "seconds": seconds, "basis": MEASURED} | values)


def test_an_entry_is_barred_from_a_metric_by_what_it_has_and_how_it_is_run():
    earlier = {("text", ""): "It has its numbers already.", ("chat", "float16"): "It is under way already."}
    generated = choice(True, True, earlier_numbers=earlier)
    assert [generated.obstacle_to(*one) for one in (("text", ""), ("chat", ""), ("chat", "float16"))] == [
        "It has its numbers already.",
        "",
        "It is under way already.",
    ]
    assert choice(True).obstacle_to("chat", "") == NO_CHAT
    assert choice(True).obstacle_to("text", "") == ""
    likelihoods = choice(False, earlier_numbers=earlier)
    assert [likelihoods.obstacle_to(*one) for one in (("chat", ""), ("text", "float16"), ("text", "bfloat16"))] == [
        "It has its numbers already.",
        "It is under way already.",
        "",
    ]
    assert choice(True, obstacle="Its texts are not here.").obstacle_to("text", "") == "Its texts are not here."
    assert generated.earlier_sentences == [
        "Raw text: it has its numbers already.",
        "Chat, float16: it is under way already.",
    ]


def test_a_choice_says_its_time_to_the_second_and_whether_anything_was_measured():
    assert [choice(True, seconds=seconds).time for seconds in (90.4, 1.6, 0.2)] == [
        timedelta(seconds=90),
        timedelta(seconds=2),
        timedelta(seconds=1),
    ]
    assert [choice(True, basis=basis).is_assumed for basis in (ASSUMED, MEASURED)] == [True, False]
    assert [choice(*one).asks_chats for one in ((True, True), (True, False), (False, True))] == [True, False, False]


# Logs


def provenance(**values: Any) -> LogProvenance:
    unsaid = {"tool_version": None, "task": None, "model": None, "made": None, "decoding": Decoding()}
    return LogProvenance(**{"tool": "inspect", "format": "eval"} | unsaid | values)


def test_a_log_states_its_tool_and_settings_and_only_how_many_stop_sequences():
    decoding = Decoding(temperature=0.0, top_p=None, stop=("x", "y"))
    statement = tool.describe_provenance(provenance(model="org/alder", decoding=decoding))
    assert statement == {
        "tool": "inspect",
        "format": "eval",
        "model": "org/alder",
        "temperature": 0.0,
        "stop_sequences": 2,
    }
    assert "stop_sequences" not in tool.describe_provenance(provenance(decoding=Decoding()))


def test_what_a_log_says_of_itself_is_one_line_of_120_characters():
    shortened = tool.shorten(provenance(model="a\nb" + "x" * 200, tool_version="1\u202e2"))
    assert (shortened.tool, shortened.format, shortened.tool_version) == ("inspect", "eval", "1 2")
    assert shortened.model == "a b" + "x" * 117


def test_the_name_of_a_model_comes_from_the_log_only_where_none_was_given():
    question = {"name_from_log": True}
    assert tool.find_model_name({}, provenance(model="org/alder")) == {}
    assert tool.find_model_name(question, provenance(model="org/alder")) == {"name": "org/alder", "name_from_log": True}
    for model, words in (
        ("", "The log does not name its model: send it again, and fill in the name."),
        ("=1+1", "The model's name in the log: "),
    ):
        with pytest.raises(SubmissionRefused) as refusal:
            tool.find_model_name(question, provenance(model=model))
        (problem,) = refusal.value.problems["name"]
        assert problem.startswith(words)
