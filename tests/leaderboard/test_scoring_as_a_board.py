"""Scoring texts elsewhere by the scorer that a board publishes its numbers with."""

import io
import json
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from leaderboard.models import MetricVersion
from scoring.__main__ import main
from scoring.board_fingerprints import NoBoard, read_fingerprints
from scoring.scorers import get_scorer
from tests.leaderboard.living import NAME, SLUG, Stage, entrant, small_metric, standing_in, submit

TEXTS = ["You are kind.", "It rained."]


@pytest.fixture(autouse=True)
def stage() -> Stage:
    with standing_in() as stage:
        yield stage


@pytest.fixture
def served(live_server, tmp_path):
    """A served board whose metric asks the stand-in."""
    metric = small_metric(tmp_path)
    submit(entrant(1, metric), metric)
    return live_server.url


def score(monkeypatch, *arguments: str) -> int:
    lines = "".join(json.dumps({"text": text}) + "\n" for text in TEXTS)
    monkeypatch.setattr("sys.stdin", io.StringIO(lines))
    return main(["score", *arguments])


@pytest.mark.slow
def test_a_board_says_which_fingerprint_its_scorer_has(served):
    version = MetricVersion.objects.get(metric__slug=SLUG)
    assert read_fingerprints(f"{served}/", NAME) == {f"{SLUG}@1": version.scorer_fingerprint}
    assert read_fingerprints(served, "profanity") == {}


def test_a_list_without_an_end_is_refused_and_no_fingerprint_is_left_out():
    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json={"items": [], "next": str(request.url)})

    with (
        httpx.Client(transport=httpx.MockTransport(answer)) as client,
        pytest.raises(NoBoard, match=r"board = .http://board.example/api/v1/metrics.: .* more than 100 pages"),
    ):
        read_fingerprints("http://board.example", NAME, client)


@pytest.mark.slow
def test_texts_are_scored_as_the_board_does_or_not_at_all(served, monkeypatch, capsys, stage):
    assert score(monkeypatch, "--scorer", NAME, "--board", served) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    values = get_scorer(NAME).score(TEXTS).values
    assert [list(line["scores"].values()) for line in lines] == values.tolist()

    stage.fingerprint, stage.shift = "second", 1.0  # what another version of a library would make of it
    assert score(monkeypatch, "--scorer", NAME, "--board", served) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert f"{SLUG}@1 has {MetricVersion.objects.get(metric__slug=SLUG).scorer_fingerprint}" in captured.err
    assert "install the versions and files that the metric version names" in captured.err


def test_a_board_that_does_not_ask_the_scorer_vouches_for_nothing(served, monkeypatch, capsys):
    assert score(monkeypatch, "--scorer", "profanity", "--board", served) == 2
    assert "it has no current metric version that asks profanity" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/about", "/nowhere"])
def test_an_address_where_no_board_answers_is_refused_by_name(served, path):
    with pytest.raises(NoBoard, match=f"board = '{served}{path}/api/v1/metrics': no board answers there"):
        read_fingerprints(served + path, NAME)


@pytest.mark.slow
def test_the_installed_command_scores_what_a_harness_kept(tmp_path: Path):
    samples = tmp_path / "samples_task.jsonl"
    samples.write_text("".join(json.dumps({"doc_id": 1, "filtered_resps": [text]}) + "\n" for text in TEXTS))
    command = [str(Path(sys.executable).with_name("plumbline")), "score", "--scorer", "profanity"]
    run = subprocess.run(
        [*command, "--field", "filtered_resps.0", "--texts", str(samples)], capture_output=True, text=True, check=True
    )
    values = [json.loads(line)["scores"]["profanity"] for line in run.stdout.splitlines()]
    assert values == get_scorer("profanity").score(TEXTS).values[:, 0].tolist()
    missing = subprocess.run([*command, "--texts", str(samples)], capture_output=True, text=True)
    assert missing.returncode == 2
    assert "line 1, text: is missing or no string" in missing.stderr
