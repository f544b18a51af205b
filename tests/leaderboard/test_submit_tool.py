"""Logs of other tools: what they hold is scored as our own, with where it comes from and what differs beside it."""

import json

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from leaderboard.models import LanguageModel, Metric, Submission
from leaderboard.services.evaluation_sets import declare, import_prompts, import_sentences
from leaderboard.services.metrics import Declaration, declare_metric
from leaderboard.submissions.queries.submissions import read_contents
from leaderboard.submissions.services.moderation import decide
from leaderboard.submissions.services.refusals import SubmissionRefused
from leaderboard.submissions.services.tool import LONGEST
from leaderboard.submissions.services.workspace import send_again
from scoring.contributed import Flaw
from scoring.evaluation_sets import Prompt, build_starter, get
from tests.leaderboard import living
from tests.leaderboard.contributing import nothing_is_left, numbers, rank, read_all, refused, send, stage, uploaded
from tests.leaderboard.test_accounts import person
from tests.scoring.contributed.prompts import PROMPTS, K, continuation
from tests.scoring.contributed.test_logs import RESULTS, SAMPLES, archive, inspect_log, log, samples, scenario_state

__all__ = ["stage"]

pytestmark = [pytest.mark.django_db, pytest.mark.either_database]

PAGE = "/submit/tool/"
SLUG = "toxicity-of-logs"
ZIP = "harness.zip"
TOOLS = {  # what a log says: tool, version, model, and in how many ways it differs from our protocol
    SAMPLES: ("lm-evaluation-harness", None, None, 1),
    ZIP: ("lm-evaluation-harness", "0.4.13", "stand-in/model", 1),
    "scenario_state.json": ("HELM", None, "stand-in/model", 2),
    "inspect.json": ("Inspect", "0.3.285", "mockllm/model", 1),
    "inspect.eval": ("Inspect", "0.3.285", "mockllm/model", 1),
}


@pytest.fixture
def metric(stage, db) -> Metric:
    """Three continuations of each of the prompts that the logs have."""
    texts, _ = import_prompts(declare(get("real-toxicity-prompts-sample")), [Prompt(of.id, of.text) for of in PROMPTS])
    return declare_metric(Declaration(SLUG, "Logs", living.NAME, "toxicity", "rtp", {"k": K}), texts)


def content_of(name: str) -> bytes:
    return archive({f"runs/{SAMPLES}": log(SAMPLES), f"runs/{RESULTS}": log(RESULTS)}) if name == ZIP else log(name)


def sent(file: str, content: bytes | None = None, **changes) -> Submission:
    return send([SLUG], content or content_of(file), file, form="tool", **{"name": "", **changes})


def our_own(metric: Metric) -> LanguageModel:
    """A model that wrote the same in our columns."""
    rows = [
        {"prompt_id": prompt.id, "index": index, "text": continuation(number, index)}
        for number, prompt in enumerate(PROMPTS)
        for index in range(K)
    ]
    content = "".join(json.dumps(row) + "\n" for row in rows).encode()
    return rank(send([metric.slug], content, name="Ours", kind="causal")).model


@pytest.mark.slow
@pytest.mark.parametrize("name", TOOLS)
def test_a_log_is_recognised_and_scored_as_the_same_texts_from_anywhere(metric, name):
    tool, version, model, differences = TOOLS[name]
    submission = rank(sent(name, name="" if model else "Named by hand"))
    assert numbers(submission.model, metric) == numbers(our_own(metric), metric)
    assert submission.model.name == submission.payload["name"] == (model or "Named by hand")
    environment = submission.model.runs.get().environment
    assert (environment["tool"], environment.get("tool_version"), environment.get("model")) == (tool, version, model)
    assert len(environment["differences"]) == differences
    assert submission.report["matched"] == {"prompts": 5, "exact": 5, "but_for_whitespace": 0, "others": 0}
    assert f"The file is good: 15 rows of {tool}" in " ".join(line.text for line in submission.lines.all())


@pytest.mark.slow
def test_what_differs_from_our_protocol_stands_with_its_numbers_where_the_model_is_shown(client, metric):
    model = rank(sent("scenario_state.json")).model
    page = client.get(model.get_absolute_url()).content.decode()
    assert "temperature: 0.9 in the log, 1 in this protocol." in page
    assert "top-p: 1 in the log, 0.9 in this protocol." in page
    assert "HELM, version not stated" in page
    assert ">other settings</a>" in client.get(f"/rankings/?metric={SLUG}").content.decode()


@pytest.mark.slow
def test_the_results_of_the_harness_beside_its_samples_name_model_and_version(metric):
    submission = rank(sent(SAMPLES, results=SimpleUploadedFile("results.json", log(RESULTS))))
    assert submission.model.name == "stand-in/model"
    assert submission.model.runs.get().environment["tool_version"] == "0.4.13"


@pytest.mark.slow
def test_what_a_log_says_of_itself_is_cut_to_a_line(metric):
    results = log(RESULTS).replace(b'"0.4.13"', json.dumps("0.4.13\n" + "9" * 1000).encode())
    submission = rank(sent(SAMPLES, results=SimpleUploadedFile("results.json", results)))
    version = submission.model.runs.get().environment["tool_version"]
    assert version.startswith("0.4.13")
    assert len(version) == LONGEST
    assert version.isprintable()


def test_characters_that_no_database_keeps_are_taken_out_of_what_results_say(metric):
    content = json.dumps({"model_name": "a\0model", "lm_eval_version": "0.4\ud800"}).encode()
    submission = sent(SAMPLES, results=SimpleUploadedFile("results.json", content))
    assert submission.payload["results"] == {"model_name": "a model", "lm_eval_version": "0.4"}


@pytest.mark.slow
def test_another_number_of_continuations_makes_a_ranking_of_its_own(metric):
    own = our_own(metric)
    one = samples(lambda lines: [line.update(resps=[line["resps"][0][:1]]) for line in lines])
    with nothing_is_left():
        report = refused(sent(SAMPLES, one, name="Of one")).report
    assert report["counts"] == {Flaw.MISSING: 5}
    waiting = sent(SAMPLES, one, name="Of one", k=1)
    read_all()
    waiting.refresh_from_db()
    assert (waiting.state, waiting.concerns) == (
        "moderated",
        ["It opens a new public ranking: Logs with k = 1 continuations per prompt."],
    )
    decide(waiting, "return", "Say where it comes from.")
    send_again(waiting, {"name": "Of one", "licence": "mit", "metrics": [SLUG]}, waiting.submitter)
    assert waiting.concerns == ["It opens a new public ranking: Logs with k = 1 continuations per prompt."]
    assert not Metric.objects.filter(slug=f"{SLUG}-k1").exists(), "nobody sees a ranking that nobody has looked at"
    decide(waiting, "accept")
    submission = rank(waiting)
    board = Metric.objects.get(slug=f"{SLUG}-k1")
    assert submission.payload["metrics"] == [board.slug]
    assert set(board.current_version().standings.values_list("model__name", flat=True)) == {"Of one"}
    assert set(metric.current_version().standings.values_list("model", flat=True)) == {own.pk}
    with pytest.raises(SubmissionRefused, match="has its outputs for toxicity-of-logs-k1 already"):
        sent(SAMPLES, one, name="Of one", k=1)


@pytest.mark.slow
def test_other_prompts_in_a_log_are_left_out_where_that_is_asked_for(metric):
    more = samples(lambda lines: lines.append({**lines[0], "doc_id": 9, "doc": {"prompt": {"text": "Not ours"}}}))
    with nothing_is_left():
        assert Flaw.FOREIGN_ID in refused(sent(SAMPLES, more, name="More")).report["counts"]
    submission = rank(sent(SAMPLES, more, name="More", leave_out_others=True))
    assert submission.report["matched"]["others"] == 1


def without_model(state) -> None:
    state["adapter_spec"].pop("model")
    for of in state["request_states"]:
        of["request"].pop("model")


def hostile_model(state) -> None:
    without_model(state)
    state["adapter_spec"]["model"] = "=cmd()"


def bomb() -> bytes:
    return archive({SAMPLES: b"\n" * 2**25})


def damaged() -> bytes:
    content = bytearray(content_of(ZIP))
    content[80:90] = bytes(10)
    return bytes(content)


BAD = {  # file name, content, and what is said: the kind of problem, or words of the reason
    "results in place of samples": ("r.json", log(RESULTS), Flaw.FORMAT),
    "no tool's JSON": ("x.json", b'{"hello": 1}', Flaw.FORMAT),
    "no JSON": ("x.json", b"PNG", Flaw.FORMAT),
    "cut off samples": (SAMPLES, log(SAMPLES)[:-40], Flaw.NOT_JSON),
    "a prompt missing": (SAMPLES, samples(lambda lines: lines.pop()), Flaw.MISSING),
    "too many continuations": (
        SAMPLES,
        samples(lambda lines: lines[0]["resps"][0].append("more")),
        Flaw.TOO_MANY,
    ),
    "two decodings": (
        SAMPLES,
        samples(lambda lines: lines[1]["arguments"]["gen_args_0"]["arg_1"].update(temperature=2.0)),
        Flaw.MIXED,
    ),
    "no samples of generation": (
        SAMPLES,
        samples(lambda lines: [of.pop("resps") for of in lines]),
        Flaw.MISSING_COLUMN,
    ),
    "unfinished": (
        "scenario_state.json",
        scenario_state(lambda state: state["request_states"][2].pop("result")),
        Flaw.UNFINISHED,
    ),
    "no model": ("scenario_state.json", scenario_state(without_model), "does not name its model"),
    "formula as model": ("scenario_state.json", scenario_state(hostile_model), "begins with ="),
    "newer Inspect": ("inspect.json", inspect_log(lambda content: content.update(version=3)), Flaw.VERSION),
    "unfinished Inspect": ("inspect.json", inspect_log(lambda content: content["samples"].pop()), Flaw.MISSING),
    "cut off archive": ("inspect.eval", log("inspect.eval")[:-30], Flaw.TRUNCATED),
    "archive without samples": (ZIP, archive({"notes.txt": b"hello"}), Flaw.FORMAT),
    "archive of two": (ZIP, archive({SAMPLES: log(SAMPLES), f"b/{SAMPLES}": log(SAMPLES)}), Flaw.FORMAT),
    "archive that leads out": (ZIP, archive({f"../{SAMPLES}": log(SAMPLES)}), Flaw.PATH),
    "bomb": (ZIP, bomb(), Flaw.BOMB),
    "damaged archive": (ZIP, damaged(), Flaw.NOT_ZIP),
}


@pytest.mark.slow_cases
@pytest.mark.parametrize("case", BAD)
def test_a_bad_log_is_refused_with_its_own_message_and_leaves_nothing(metric, case):
    name, content, expected = BAD[case]
    with nothing_is_left():
        submission = refused(sent(name, content))
    if isinstance(expected, Flaw):
        assert expected in submission.report["counts"]
        assert all(problem["remedy"] for problem in submission.report["problems"])
    else:
        assert expected in submission.reason


FIELDS = {
    "wrong ending": ({}, "samples.txt", "file", "ends in none of .jsonl"),
    "k of none": ({"k": 0}, SAMPLES, "k", "from 1 to 100"),
    "k in words": ({"k": "many"}, SAMPLES, "k", "from 1 to 100"),
    "metric of likelihoods": ({"metrics": ["likely"]}, SAMPLES, "metrics", "logs have continuations"),
    "results that are none": (
        {"results": SimpleUploadedFile("results.json", b"[1]")},
        SAMPLES,
        "results",
        "It is not JSON",
    ),
    "no revision": ({"revision": ""}, SAMPLES, "revision", "Fill it in"),
}


@pytest.mark.slow_cases
@pytest.mark.parametrize("case", FIELDS)
def test_what_is_wrong_in_a_field_is_said_at_the_field(metric, case):
    changes, name, field, words = FIELDS[case]
    sentences, _ = import_sentences(get("starter"), build_starter()[:4])
    declare_metric(Declaration("likely", "L", "likelihood", "safety", "likelihood", {}), sentences)
    with nothing_is_left(), pytest.raises(SubmissionRefused) as refusal:
        send(changes.pop("metrics", [SLUG]), log(SAMPLES), name, form="tool", **changes)
    assert list(refusal.value.problems) == [field]
    assert words in refusal.value.problems[field][0]


@pytest.mark.slow
def test_the_page_takes_a_log(client, metric):
    assert "/accounts/login/" in client.get(PAGE).url
    client.force_login(person())
    assert client.get(PAGE).status_code == 200
    values = {"metrics": [SLUG], "revision": "1", "file": uploaded(log("inspect.eval"), "inspect.eval")}
    response = client.post(PAGE, values)
    submission = Submission.objects.get()
    assert response.url == submission.get_absolute_url()
    assert submission.payload["name"] == "inspect.eval", "until it is read"
    read_all()
    submission.refresh_from_db()
    assert submission.payload["name"] == "mockllm/model"
    wrong = client.post(PAGE, {**values, "k": "x", "file": uploaded(b"", "inspect.eval")}).content.decode()
    assert "from 1 to 100" in wrong
    assert "The file is empty" in wrong


def test_what_the_checks_found_shows_dates_as_they_are_and_groups_the_digits_of_numbers():
    facts = {"made": "2026-01-02T03:04:05", "file": {"size": 1_234_567}, "leave_out_others": False}
    findings = {field.label: field.text for field in read_contents(Submission(payload=facts), {}).findings}
    assert findings == {"Made": "2026-01-02T03:04:05", "Size": "1,234,567", "Leave out others": "no"}
