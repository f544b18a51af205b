"""Logs of other tools, made with their own code: their texts are taken, with where they come from."""

import io
import json
import zipfile
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from scoring.contributed import ContributionRefused, Flaw, Limits, Matched, Report
from scoring.contributed.tools import Decoding, LogProvenance, ToolOutput, differences, read_log
from scoring.generation import GenerationSettings
from tests.scoring.contributed.files import found
from tests.scoring.contributed.prompts import PROMPTS, K, Prompt, continuation

LOGS = Path(__file__).parent / "logs"
SAMPLES = "samples_realtoxicityprompts_2026-01-02T03-04-05.678901.jsonl"
RESULTS = "results_2026-01-02T03-04-05.678901.json"
FILES = [SAMPLES, "scenario_state.json", "inspect.json", "inspect.eval"]
UNITS = {SAMPLES: "line"}
WITHIN_OURS = Decoding(k=K, temperature=1.0, top_p=0.9, max_new_tokens=20)


def log(name: str) -> bytes:
    return (LOGS / name).read_bytes()


def taken(data: bytes, name: str, prompts=PROMPTS, k: int = K, **options) -> ToolOutput:
    return read_log(io.BytesIO(data), name, prompts, k, **options)


def refusal(data: bytes, name: str, prompts=PROMPTS, k: int = K, **options) -> Report:
    with pytest.raises(ContributionRefused) as refused:
        taken(data, name, prompts, k, **options)
    return refused.value.report


def scenario_state(change) -> bytes:
    """The scenario state, after a change of what is in it."""
    state = json.loads(log("scenario_state.json"))
    change(state)
    return json.dumps(state).encode()


def inspect_log(change) -> bytes:
    content = json.loads(log("inspect.json"))
    change(content)
    return json.dumps(content).encode()


def samples(change) -> bytes:
    lines = [json.loads(line) for line in log(SAMPLES).splitlines()]
    change(lines)
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


def archive(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return buffer.getvalue()


@pytest.mark.parametrize("name", FILES)
def test_every_text_of_a_log_is_taken_in_the_order_of_our_prompts(name):
    table = taken(log(name), name).table
    assert table["prompt_id"].to_pylist() == [prompt.id for prompt in PROMPTS for _ in range(K)]
    assert table["index"].to_pylist() == list(range(K)) * len(PROMPTS)
    assert table["text"].to_pylist() == [continuation(n, index) for n in range(len(PROMPTS)) for index in range(K)]


@pytest.mark.parametrize(
    ("name", "count", "finish"),
    [(SAMPLES, None, None), ("scenario_state.json", 2, "length"), ("inspect.json", 20, "length")],
)
def test_tokens_and_ends_are_taken_where_a_log_has_them(name, count, finish):
    table = taken(log(name), name).table
    assert set(table["n_tokens"].to_pylist()) == {count}
    assert set(table["finish"].to_pylist()) == {finish}


def test_the_samples_of_the_harness_say_where_they_come_from_in_the_results_beside_them():
    alone = taken(log(SAMPLES), SAMPLES).provenance
    assert alone == LogProvenance(
        tool="lm-evaluation-harness",
        tool_version=None,
        format="samples JSON lines",
        task="realtoxicityprompts",
        model=None,
        made="2026-01-02T03:04:05",
        decoding=replace(WITHIN_OURS, stop=("\n\n",)),
    )
    beside = taken(log(SAMPLES), SAMPLES, results=io.BytesIO(log(RESULTS))).provenance
    made = beside.made
    assert beside == replace(alone, tool_version="0.4.13", model="stand-in/model", made=made)
    assert made is not None
    assert made.endswith("+00:00")


def test_a_scenario_state_says_where_it_comes_from():
    assert taken(log("scenario_state.json"), "scenario_state.json").provenance == LogProvenance(
        tool="HELM",
        tool_version=None,
        format="scenario_state.json",
        task=None,
        model="stand-in/model",
        made="2026-01-02T03:04:05+00:00",
        decoding=replace(WITHIN_OURS, temperature=0.9, top_p=1.0),
    )


@pytest.mark.parametrize("name", ["inspect.json", "inspect.eval"])
def test_a_log_of_inspect_says_where_it_comes_from(name):
    found = taken(log(name), name).provenance
    assert found == LogProvenance(
        tool="Inspect",
        tool_version="0.3.285",
        format="eval log, version 2",
        task="real_toxicity_prompts",
        model="mockllm/model",
        made=json.loads(log("inspect.json"))["eval"]["created"],
        decoding=WITHIN_OURS,
        chat=True,
    )


@pytest.mark.parametrize("name", FILES)
def test_prompts_match_exactly_or_but_for_whitespace_and_it_is_said_how_many(name):
    spaced = [prompt._replace(text=f" {prompt.text}\n") if prompt.id == "river" else prompt for prompt in PROMPTS]
    assert taken(log(name), name).matched == Matched(prompts=5, exact=5)
    assert taken(log(name), name, spaced).matched == Matched(prompts=5, exact=4, but_for_whitespace=1)


@pytest.mark.parametrize("name", FILES)
def test_missing_prompts_and_those_of_another_set_are_reported(name):
    ours = [*PROMPTS[1:], Prompt("ours-alone", "Nobody was asked this")]
    report = refusal(log(name), name, ours)
    of_another = report.counts[Flaw.FOREIGN_ID]
    assert of_another == (K if name.startswith("inspect") else 1)  # a record of Inspect is one epoch
    assert report.counts == {Flaw.FOREIGN_ID: of_another, Flaw.MISSING: 1}
    assert report.matched == Matched(prompts=5, exact=4, others=1)
    first, last = report.problems[0], report.problems[-1]
    assert (first.kind, first.field, first.unit) == (Flaw.FOREIGN_ID, "prompt", UNITS.get(name, "record"))
    assert first.line == {"inspect.json": 5}.get(name, 1)  # where samples are in the order of their ids
    assert last.value == f"'ours-alone': 0 of {K}"


@pytest.mark.parametrize("name", FILES)
def test_other_prompts_may_be_left_out(name):
    found = taken(log(name), name, PROMPTS[1:], leave_out_others=True)
    assert found.table["text"].to_pylist() == [continuation(n, i) for n in range(1, len(PROMPTS)) for i in range(K)]
    assert found.matched == Matched(prompts=4, exact=4, others=1)


@pytest.mark.parametrize("name", FILES)
def test_more_or_fewer_continuations_than_k_are_reported(name):
    fewer, more = refusal(log(name), name, k=K + 1), refusal(log(name), name, k=K - 1)
    assert fewer.counts == {Flaw.MISSING: 5}
    assert fewer.problems[0].value == f"'river': {K} of {K + 1}"
    assert more.counts[Flaw.TOO_MANY] == 5
    assert more.problems[0].kind == Flaw.TOO_MANY


@pytest.mark.parametrize("name", FILES)
def test_a_log_that_was_cut_off_is_refused(name):
    data = log(name)
    for size in range(1, len(data) - 1, max(1, len(data) // 50)):
        report = refusal(data[:size], name)
        assert set(report.counts) & {Flaw.TRUNCATED, Flaw.NOT_JSON, Flaw.MISSING, Flaw.FORMAT}, report


@pytest.mark.parametrize("name", [SAMPLES, "scenario_state.json", "inspect.json"])
def test_a_byte_that_is_not_utf_8_is_reported_with_its_place(name):
    data = log(name)
    at = data.index(b"river")
    at = data.index(b"rises")
    (problem,) = refusal(data[:at] + b"\xff" + data[at:], name).problems
    assert problem.kind == Flaw.NOT_UTF8
    assert f"{at + 1:,} of the file" in problem.value


def test_a_failed_request_stands_for_no_more_completions_than_a_run_may_make():
    def change(state):
        state["request_states"][0]["result"] = {"success": False, "error": "no memory", "completions": []}
        for request_state in state["request_states"]:
            request_state["request"]["num_completions"] = 100_000

    report = refusal(scenario_state(change), "scenario_state.json")
    assert f"{2**16} of {K}" in " ".join(problem.value.replace(",", "") for problem in report.problems)


def test_a_failed_or_empty_output_becomes_a_reason():
    def change(state):
        state["request_states"][0]["result"] = {"success": False, "error": "=cmd\n\0 it is\tlate", "completions": []}
        state["request_states"][1]["result"]["completions"][0]["text"] = ""

    table = taken(scenario_state(change), "scenario_state.json").table.slice(0, 4)
    assert table["text"].to_pylist() == [None] * 4
    assert table["error"].to_pylist() == ["HELM: =cmd it is late"] * 3 + ["HELM: no text"]
    assert table["finish"].to_pylist() == [None] * 4
    assert table["truncated"].to_pylist() == [False] * 4


def test_what_a_filter_withheld_is_no_text_of_the_model():
    def change(content):
        choice = content["samples"][0]["output"]["choices"][0]
        choice["stop_reason"], choice["message"]["content"] = "content_filter", "I cannot say that."
        content["samples"][1]["error"] = {"message": "timeout", "traceback": "", "traceback_ansi": ""}

    table = taken(inspect_log(change), "inspect.json").table
    assert sorted(filter(None, table["error"].to_pylist())) == ["Inspect: content_filter", "Inspect: timeout"]
    assert table["text"].null_count == 2

    def withhold(state):
        first, second, *_ = state["request_states"][0]["result"]["completions"]
        first["text"] = ""
        first["finish_reason"] = second["finish_reason"] = {"reason": "content_filter"}

    table = taken(scenario_state(withhold), "scenario_state.json").table
    assert list(filter(None, table["error"].to_pylist())) == ["HELM: content_filter"]
    assert table["text"].null_count == 1


def test_reasoning_and_images_are_not_part_of_a_text_and_attachments_are():
    def change(content):
        sample = content["samples"][0]
        sample["attachments"] = {"a1": "a text"}
        sample["output"]["choices"][0]["message"]["content"] = [
            {"type": "reasoning", "reasoning": "hm"},
            {"type": "text", "text": "attachment://a1"},
            {"type": "image", "image": "x"},
            {"type": "text", "text": " of two parts"},
        ]

    assert "a text of two parts" in taken(inspect_log(change), "inspect.json").table["text"].to_pylist()


def test_choices_of_an_epoch_follow_each_other():
    def change(content):
        content["plan"]["config"]["num_choices"] = 3
        content["eval"]["config"]["epochs"] = 1
        by_id = {}
        for sample in content["samples"]:
            by_id.setdefault(sample["id"], []).append(sample)
        for first, *others in by_id.values():
            first["output"]["choices"] += [other["output"]["choices"][0] for other in others]
        content["samples"] = [group[0] for group in by_id.values()]

    assert taken(inspect_log(change), "inspect.json").table.equals(
        taken(log("inspect.json"), "inspect.json").table.set_column(3, "n_tokens", pa.nulls(15, pa.int32()))
    )


def test_a_prompt_with_words_around_it_counts_as_reworded():
    def helm(state):
        state["request_states"][0]["request"]["prompt"] = "Go on: " + PROMPTS[0].text

    def harness(lines):
        lines[0]["arguments"]["gen_args_0"]["arg_0"] = "<|user|>" + PROMPTS[0].text

    def inspect(content):
        sample = next(sample for sample in content["samples"] if sample["id"] == "river")
        sample["messages"].insert(0, {"role": "system", "content": "Go on."})

    assert taken(scenario_state(helm), "scenario_state.json").provenance.reworded == 1
    assert taken(samples(harness), SAMPLES).provenance.reworded == 1
    assert taken(inspect_log(inspect), "inspect.json").provenance.reworded == 1


def test_instances_without_an_id_are_told_apart_where_the_set_holds_a_text_twice():
    def change(state):
        for record in state["request_states"]:
            del record["instance"]["id"]

    named = taken(log("scenario_state.json"), "scenario_state.json").table
    assert taken(scenario_state(change), "scenario_state.json").table.equals(named)


def test_perturbed_instances_and_other_filters_are_passed_over():
    def helm(state):
        state["request_states"].append({**state["request_states"][0]})
        state["request_states"][-1]["instance"] = {
            **state["request_states"][0]["instance"],
            "perturbation": {"name": "typos"},
        }

    def harness(lines):
        lines += [{**line, "filter": "strict"} for line in lines]

    assert taken(scenario_state(helm), "scenario_state.json").table.num_rows == 15
    assert taken(samples(harness), SAMPLES).table.num_rows == 15


@pytest.mark.parametrize(
    ("data", "name", "problem"),
    [
        (
            scenario_state(lambda state: state["request_states"][2]["request"].update(temperature=0.1)),
            "scenario_state.json",
            (Flaw.MIXED, 3, None),
        ),
        (
            scenario_state(lambda state: state["request_states"][2].pop("result")),
            "scenario_state.json",
            (Flaw.UNFINISHED, 3, "result"),
        ),
        (
            scenario_state(lambda state: state["request_states"][2].pop("instance")),
            "scenario_state.json",
            (Flaw.TYPE, 3, "instance, request"),
        ),
        (
            scenario_state(lambda state: state["request_states"].append(state["request_states"][0])),
            "scenario_state.json",
            (Flaw.DUPLICATE, 6, "prompt"),
        ),
        (samples(lambda lines: lines[1].update(resps=[])), SAMPLES, (Flaw.TYPE, 2, "resps")),
        (samples(lambda lines: lines[1].update(resps=[["a", 3, "c"]])), SAMPLES, (Flaw.TYPE, 2, "text")),
        (samples(lambda lines: lines[1].update(resps=[["a", "b\0", "c"]])), SAMPLES, (Flaw.NUL, 2, "text")),
        (samples(lambda lines: lines[1].pop("arguments")), SAMPLES, (Flaw.MISSING_COLUMN, 2, None)),
        (inspect_log(lambda log: log.update(version=3)), "inspect.json", (Flaw.VERSION, None, "version")),
        (inspect_log(lambda log: log["samples"][4].update(epoch=None)), "inspect.json", (Flaw.TYPE, 5, "epoch")),
        (inspect_log(lambda log: log["samples"].append("x")), "inspect.json", (Flaw.TYPE, 16, "samples")),
        (
            inspect_log(lambda log: log["samples"].append(log["samples"][0])),
            "inspect.json",
            (Flaw.DUPLICATE, 16, "prompt"),
        ),
        (log(RESULTS), RESULTS, (Flaw.FORMAT, None, None)),
        (b"[]", "per_instance_stats.json", (Flaw.FORMAT, None, None)),
        (b"", "log.json", (Flaw.FORMAT, None, None)),
        (b'{"version": 2, "eval": {}} x', "log.json", (Flaw.NOT_JSON, None, None)),
        (b'{"version": 2, "eval": {"a" 1}, "samples": []}' + b" " * 99, "log.json", (Flaw.NOT_JSON, None, "eval")),
        (b'{"version": 2, "eval": ' + b"[" * 10**5, "log.json", (Flaw.NOT_JSON, None, "eval, element 1")),
        (b'{"version": 2, "samples": []}', "log.json", (Flaw.NO_ROWS, None, None)),
        (archive({"a.json": b"{}"}), "log.eval", (Flaw.FORMAT, None, None)),
        (archive({"header.json": b'{"version": 9}'}), "log.eval", (Flaw.VERSION, None, "version")),
        (archive({"header.json": b"\xff"}), "log.eval", (Flaw.NOT_UTF8, None, None)),
        (archive({"header.json": b"{}", "samples/a_epoch_1.json": b"{"}), "log.eval", (Flaw.NOT_JSON, 1, None)),
    ],
)
def test_what_is_wrong_with_a_log_is_said_with_its_place(data, name, problem):
    assert found(refusal(data, name))[0] == problem


@pytest.mark.parametrize("encrypted", [True, False])
def test_an_encrypted_member_is_not_read_whatever_it_seems_to_hold(encrypted):
    data = bytearray(archive({"header.json": b'{"version": 9}'}))
    for signature, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(signature) + place] |= encrypted
    expected = (Flaw.NOT_ZIP, None, None) if encrypted else (Flaw.VERSION, None, "version")
    assert found(refusal(bytes(data), "log.eval")) == [expected]


@pytest.mark.parametrize("name", ["../a", "/a", "a/../../b", "..\\a", "C:\\a", "C:/a"])
def test_a_path_that_leads_out_of_an_archive_is_refused(name):
    report = refusal(archive({"header.json": b"{}", name: b""}), "log.eval")
    assert found(report) == [(Flaw.PATH, None, None)]


def test_a_link_in_an_archive_is_refused():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        link = zipfile.ZipInfo("samples/a_epoch_1.json")
        link.external_attr = 0o120777 << 16
        file.writestr(link, "/etc/passwd")
    assert found(refusal(buffer.getvalue(), "log.eval")) == [(Flaw.PATH, None, None)]


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_an_archive_with_two_members_of_one_name_is_refused():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("header.json", "{}")
        file.writestr("header.json", "{}")
    assert found(refusal(buffer.getvalue(), "log.eval")) == [(Flaw.DUPLICATE, None, None)]


@pytest.mark.slow
def test_archives_that_unpack_to_more_than_they_say_are_refused():
    zeros = archive({"header.json": b"{}", "samples/a_epoch_1.json": b" " * 10**6})
    lying = zeros.replace((10**6).to_bytes(4, "little"), (10**3).to_bytes(4, "little"))
    assert refusal(lying, "log.eval").counts == {Flaw.BOMB: 1}
    assert refusal(zeros, "log.eval", limits=Limits(line_bytes=10**5)).counts == {Flaw.TOO_LONG: 1}
    many = archive(
        {"header.json": b"{}", **{f"samples/{n}_epoch_1.json": b'{"a":1}' + b" " * 10**6 for n in range(30)}}
    )
    assert Flaw.BOMB in refusal(many, "log.eval").counts


def test_scores_and_not_a_number_in_them_are_passed_over():
    def change(content):
        content["samples"][0]["scores"] = {"toxic": {"value": float("nan")}}
        content["reductions"] = [{"scorer": "x", "samples": [{"value": float("inf")}]}]

    data = inspect_log(change)
    assert b"NaN" in data
    assert taken(data, "inspect.json").table.num_rows == 15


def test_no_difference_is_found_where_log_and_protocol_agree():
    output = ToolOutput(
        pa.table({}), LogProvenance("x", None, "x", None, None, None, WITHIN_OURS), Matched(prompts=5, exact=5)
    )
    assert differences(output, GenerationSettings(k=K, top_p=0.9)) == []


def test_differences_between_log_and_protocol_are_said_in_words():
    found = taken(log("scenario_state.json"), "scenario_state.json")
    assert differences(found, GenerationSettings(k=25, top_p=0.9, top_k=40)) == [
        "k, continuations of each prompt: 3 in the log, 25 in this protocol.",
        "temperature: 0.9 in the log, 1 in this protocol.",
        "top-p: 1 in the log, 0.9 in this protocol.",
        "top-k, where 0 is no limit: 0 in the log, 40 in this protocol.",
    ]
    silent = LogProvenance("x", None, "x", None, None, None, Decoding(stop=(".",)), reworded=2, chat=True)
    output = ToolOutput(found.table, silent, Matched(prompts=5, exact=4, but_for_whitespace=1))
    assert differences(output, GenerationSettings()) == [
        "k, continuations of each prompt: the log does not say, 25 in this protocol.",
        "temperature: the log does not say, 1 in this protocol.",
        "top-p: the log does not say, 1 in this protocol.",
        "max new tokens: the log does not say, 20 in this protocol.",
        "stop sequences: 1 in the log, none in this protocol; texts may end sooner.",
        "prompts: the model got them as chat messages; this protocol gives it texts to go on from.",
        "prompts: the model got 2 of them with other words around them.",
        "prompts: the model got 1 of them with other whitespace.",
    ]
