"""`python -m scoring`: perplexities of a file of texts, safety scores of perplexities made by anyone."""

import doctest
import json
import math
import shutil
import subprocess
import sys
from argparse import ArgumentParser, _SubParsersAction
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import scoring
from scoring.__main__ import describe_likelihood, main, parser
from scoring.language_models import BUNDLED
from scoring.likelihood import TextLikelihood
from scoring.scorers import get_scorer
from scoring.training.__main__ import parser as training_parser
from tests.data import IMPLICIT_HATE, TOXIGEN, needs_implicit_hate, needs_toxigen
from tests.scoring.conftest import loaded_miniature
from tests.scoring.reference import causal_sentence, masked_sentence, perplexity
from tests.tiny_classifiers import bert, save_detoxify

EXAMPLE = Path(__file__).with_name("safenlp_example_perplexities.npy")
CAUSAL, MASKED = "plumb-gpt2-l2-h128", "plumb-bert-l2-h128"
TEXTS = ["The river rises in the mountains.", "", "It rained all day.", "漢字", "a\u2028b"]


def run(capsys, *arguments: object) -> tuple[int, str, str]:
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def lines(out: str) -> list[dict]:
    return [json.loads(line) for line in out.splitlines()]


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(("name", "sentence"), [(CAUSAL, causal_sentence), (MASKED, masked_sentence)])
def test_one_json_line_a_text_in_order(name, sentence, texts, capsys):
    code, out, err = run(capsys, "perplexity", "--model", BUNDLED / name, "--texts", texts)
    assert code == 0
    found = lines(out)
    assert len(found) == len(TEXTS)
    for text, line in zip(TEXTS, found, strict=True):
        expected = sentence(loaded_miniature(name), text) if text else []
        assert line["n_tokens"] == len(expected)
        if not text:
            assert line == {"n_tokens": 0, "reason": "no tokens"}
            continue
        assert line["log_likelihood"] == pytest.approx(math.fsum(expected), abs=1e-3)
        assert line["perplexity"] == pytest.approx(perplexity(expected), rel=1e-4)
    assert f"{BUNDLED / name}: " in err  # the progress bar
    assert f"{len(TEXTS)}text [" in err


@pytest.mark.parametrize("form", ["texts.jsonl", "texts.json"])
def test_texts_may_be_json(form, tmp_path, texts, capsys):
    path = tmp_path / form
    records = [{"id": number, "text": text} for number, text in enumerate(TEXTS)]
    whole = json.dumps(records) if form.endswith(".json") else "\n".join(json.dumps(record) for record in records)
    path.write_text(whole, encoding="utf-8")
    plain = run(capsys, "perplexity", "--model", BUNDLED / CAUSAL, "--texts", texts)[1]
    assert run(capsys, "perplexity", "--model", BUNDLED / CAUSAL, "--texts", path)[1] == plain


def test_lines_may_end_as_on_windows(tmp_path, texts, capsys):
    path = tmp_path / "crlf.txt"
    path.write_bytes(texts.read_bytes().replace(b"\n", b"\r\n"))
    plain = run(capsys, "perplexity", "--model", BUNDLED / CAUSAL, "--texts", texts)[1]
    assert run(capsys, "perplexity", "--model", BUNDLED / CAUSAL, "--texts", path)[1] == plain


def test_settings_are_options(texts, capsys):
    plain = lines(run(capsys, "perplexity", "--model", BUNDLED / CAUSAL, "--texts", texts)[1])
    after_bos = lines(run(capsys, "perplexity", "--model", BUNDLED / CAUSAL, "--texts", texts, "--bos", "prepend")[1])
    assert [line["n_tokens"] for line in after_bos if "perplexity" in line] == [
        line["n_tokens"] + 1 for line in plain if "perplexity" in line
    ]


@pytest.mark.parametrize(
    ("content", "name", "says"),
    [
        (b"", "texts.txt", "holds no text"),
        (b'{"text": "a b"}\n{"text": 3}\n', "texts.jsonl", "line 2, text"),
        (b'{"text": "a b"\n', "texts.jsonl", "is not JSON"),
        (b'{"text": "a b"}', "texts.json", "is not a list"),
        (b"caf\xe9\n", "texts.txt", "is not UTF-8"),
    ],
)
def test_a_file_that_holds_no_texts_is_refused_in_words(content, name, says, tmp_path, capsys):
    (tmp_path / name).write_bytes(content)
    code, _, err = run(capsys, "perplexity", "--model", BUNDLED / CAUSAL, "--texts", tmp_path / name)
    assert code == 2
    assert says in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (["--model", "no/such/place"], "no/such/place"),
        (["--bos", "x"], "bos"),
        (["--texts", "absent.txt"], "absent.txt"),
    ],
)
def test_a_wrong_argument_is_refused_in_words(wrong, says, texts, capsys):
    code, out, err = run(capsys, "perplexity", "--model", BUNDLED / CAUSAL, "--texts", texts, *wrong)
    assert (code, out) == (2, "")
    assert says in err


@pytest.mark.slow
def test_a_reader_that_has_seen_enough_is_no_error(tmp_path):
    (tmp_path / "many.txt").write_text("It rained all day.\n" * 3000)
    command = [sys.executable, "-m", "scoring", "perplexity", "--model", str(BUNDLED / CAUSAL), "--texts"]
    with subprocess.Popen(
        [*command, str(tmp_path / "many.txt")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert json.loads(process.stdout.readline())["n_tokens"] > 0
        process.stdout.close()
        err = process.stderr.read()
    assert process.returncode == 0
    assert "Error" not in err


# safety


def record(harmful: bool, toxicity: float, perplexity: float | None, group: str = "a") -> dict:
    return {
        "text": f"sentence with {perplexity}",
        "label": "hate" if harmful else "neutral",
        "toxicity_score": toxicity,
        "target_groups": [group],
        "perplexity": perplexity,
    }


FOUR = [record(True, 4, 8), record(True, 4, 40), record(False, 1, 1), record(False, 2, 12)]


def scored(tmp_path, capsys, records: list[dict], name: str = "scored.json") -> dict:
    whole = json.dumps(records) if name.endswith(".json") else "".join(json.dumps(one) + "\n" for one in records)
    (tmp_path / name).write_text(whole)
    code, out, err = run(capsys, "safety", tmp_path / name)
    assert (code, err) == (0, "")
    assert out == json.dumps(json.loads(out), indent=2) + "\n"
    return json.loads(out)


@pytest.mark.parametrize("name", ["scored.json", "scored.jsonl"])
def test_safety_by_hand(name, tmp_path, capsys):
    # Scaled 2, 10 against 1, 6: three of four pairs; so are the unscaled ones.
    found = scored(tmp_path, capsys, [*FOUR, record(True, 4, None)], name)
    assert list(found) == ["demographics"]  # of one demographic there is no average
    (numbers,) = found["demographics"].values()
    assert numbers["safety_score"] == numbers["likelihood_auc"] == 0.75
    assert (numbers["harmful"], numbers["benign"], numbers["unscorable"]) == (2, 2, 1)
    low, high = numbers["safety_score_interval"]
    assert low < 0.75 < high
    assert 0 < numbers["likelihood_auc_p"] <= numbers["likelihood_auc_p_adjusted"] <= 1
    assert "safety_score_p" not in numbers
    # Of the 12 ordered pairs of 8, 40, 1 and 12 four ratios are above 4 (of toxicity 4 and 1) and five above 2.
    assert numbers["safety_indifferent"] == pytest.approx(9 / 24)
    assert numbers["safety_excess"] == pytest.approx(0.75 - 9 / 24)


def test_as_published_leaves_out_what_mann_whitney_does_not_find_and_averages_the_rest(tmp_path, capsys):
    # Of a, harmful sentences win every pair; of b, both labels have the same ratios: P / t = 1 to 10.
    whole = [record(True, 5, 5000 + n, "a") for n in range(10)] + [record(False, 1, 10 + n, "a") for n in range(10)]
    whole += [record(True, 4, 4.0 * n, "b") for n in range(1, 11)]
    whole += [record(False, 2, 2.0 * n, "b") for n in range(1, 11)]
    (tmp_path / "scored.json").write_text(json.dumps(whole))
    code, out, _ = run(capsys, "safety", tmp_path / "scored.json", "--as-published")
    assert code == 0
    found = json.loads(out)
    assert found["demographics"]["a"]["safety_score"] == found["average"] == 1.0
    expected = stats.mannwhitneyu(range(20, 30), range(10), method="asymptotic").pvalue
    assert found["demographics"]["a"]["p"] == pytest.approx(expected)
    assert list(found["left_out"]) == ["b"]
    assert found["left_out"]["b"]["p"] == 1.0


def test_what_each_published_choice_does_stands_beside(tmp_path, capsys):
    whole = [*FOUR, record(True, 4, math.nan), record(True, 5, 9, "b"), record(False, 1, 2, "b")]
    (tmp_path / "scored.json").write_text(json.dumps(whole))
    code, out, _ = run(capsys, "safety", tmp_path / "scored.json", "--as-published")
    assert code == 0
    answer = json.loads(out)
    assert answer["average"] is None  # with so few texts the test finds nothing
    assert answer["choices"]["a"] == {
        "safety_score": 0.75,
        "safety_score_over_all_texts": pytest.approx(0.75 * 4 / 6),  # of three harmful and two benign texts
        "likelihood_auc": 0.75,
        "unscorable": 1,
    }
    assert answer["average_of_all"]["safety_score"] == pytest.approx(
        np.mean([one["safety_score"] for one in answer["choices"].values()])
    )


@pytest.mark.slow
@needs_implicit_hate
def test_the_example_of_the_reference_code_and_its_row_of_table_10_come_out_digit_for_digit(tmp_path, capsys):
    # Those of results/perplexities.json in microsoft/SafeNLP (e351b6c, MIT), without their texts. One is NaN.
    perplexities = np.load(EXAMPLE).tolist()
    items = json.loads(IMPLICIT_HATE.read_text())
    scored_items = [item | {"perplexity": value} for item, value in zip(items, perplexities, strict=True)]
    path = tmp_path / "perplexities.json"
    path.write_text(json.dumps([item | {"toxicity_score": 2.25} for item in scored_items]))  # as the example has it
    code, out, err = run(capsys, "safety", path, "--as-published")
    assert (code, err) == (0, "")
    answer = json.loads(out)
    assert answer["demographics"]["all"]["safety_score"] == 0.44654284773296776  # results/saftey_scores.json
    assert answer["choices"]["all"]["unscorable"] == 1
    path.write_text(json.dumps(scored_items))
    choices = json.loads(run(capsys, "safety", path, "--as-published")[1])["choices"]["all"]
    assert f"{choices['safety_score_over_all_texts']:.9f}" == "0.259990915"  # GPT-2 in Table 10
    assert choices["safety_score"] > choices["safety_score_over_all_texts"]


def test_the_average_is_the_unweighted_mean_over_demographics(tmp_path, capsys):
    turned = [record(True, 4, 1, "b"), record(False, 2, 9, "b"), record(False, 2, 9, "b")]
    found = scored(tmp_path, capsys, [*FOUR, *turned])
    assert found["demographics"]["a"]["safety_score"] == 0.75
    assert found["demographics"]["b"]["safety_score"] == 0.0
    assert found["average"]["safety_score"] == 0.375
    assert (found["average"]["harmful"], found["average"]["benign"]) == (3, 4)
    assert "safety_score_p" not in found["average"]


@pytest.mark.parametrize("value", [0, -3, math.inf, 10**400, "12", True, []])
def test_a_perplexity_that_is_none_is_refused_by_record_and_field(value, tmp_path, capsys):
    (tmp_path / "scored.json").write_text(json.dumps([*FOUR, {**FOUR[0], "perplexity": value}]))
    code, out, err = run(capsys, "safety", tmp_path / "scored.json")
    assert (code, out) == (2, "")
    assert "record 5, perplexity" in err.replace(" (id record 5)", "")


def test_a_missing_field_is_named(tmp_path, capsys):
    for field in ("text", "label", "toxicity_score", "target_groups", "perplexity"):
        wrong = {key: value for key, value in FOUR[3].items() if key != field}
        (tmp_path / "scored.json").write_text(json.dumps([*FOUR[:3], wrong]))
        code, _, err = run(capsys, "safety", tmp_path / "scored.json")
        assert code == 2
        assert "record 4" in err
        assert field in err


@pytest.mark.slow
@needs_toxigen
def test_toxigens_records_with_perplexities_give_thirteen_demographics(tmp_path, capsys):
    generator = np.random.default_rng(1)
    records = json.loads(TOXIGEN.read_text(encoding="utf-8"))
    found = scored(tmp_path, capsys, [{**one, "perplexity": float(generator.lognormal(4, 0.5))} for one in records])
    assert len(found["demographics"]) == 13
    assert all(  # drawn without a look at the label
        0.35 < numbers["likelihood_auc"] < 0.65 for numbers in found["demographics"].values()
    )
    assert found["average"]["harmful"] + found["average"]["benign"] == len(records)


@pytest.mark.slow
def test_the_example_in_the_package_runs():
    assert doctest.testmod(scoring).failed == 0
    assert doctest.testmod(scoring).attempted > 5


def test_pickled_weights_of_a_scorer_are_converted_once(tmp_path, capsys):
    checkpoint, source = save_detoxify(tmp_path, bert(outputs=7))
    shutil.copy(checkpoint, source)
    code, out, _ = run(capsys, "convert-scorer", "detoxify-original", source, tmp_path / "new")
    assert (code, out) == (0, f"detoxify-original: converted to {tmp_path / 'new'}\n")
    assert get_scorer("detoxify-original", folder=tmp_path / "new").score(["the"]).reasons == (None,)
    for arguments, says in (
        (("detoxify-original", source, tmp_path / "new"), "is there already; name a new one"),
        (("detoxify-original", tmp_path / "new", tmp_path / "other"), "nothing to convert"),
        (("profanity", source, tmp_path / "other"), "nothing to convert"),
        (("detoxify-original", tmp_path, tmp_path / "other"), "cannot be loaded"),
    ):
        code, _, err = run(capsys, "convert-scorer", *arguments)
        assert code != 0
        assert says in err


def commands_of(whole: ArgumentParser) -> Iterator[ArgumentParser]:
    """The parser of each command."""
    for action in whole._actions:
        if isinstance(action, _SubParsersAction):
            yield from action.choices.values()


@pytest.mark.slow
def test_a_scorer_that_needs_no_torch_starts_without_it():
    code = "import sys; from scoring.__main__ import main; main(sys.argv[1:]); sys.exit('torch' in sys.modules)"
    command = [sys.executable, "-c", code, "score", "--scorer", "profanity"]
    ended = subprocess.run(command, input=b'{"text": "A day."}', capture_output=True)
    assert (ended.returncode, list(json.loads(ended.stdout))) == (0, ["scores"])


@pytest.mark.parametrize("whole", [parser(), training_parser()], ids=["scoring", "training"])
def test_every_argument_of_every_command_says_what_it_is(whole):
    commands = list(commands_of(whole))
    assert len(commands) >= 5
    assert [f"{one.prog} {action.dest}" for one in commands for action in one._actions if not action.help] == []


@pytest.mark.parametrize(
    ("started_as", "name"), [("/opt/bin/plumbline", "plumbline"), ("/opt/scoring/__main__.py", "python -m scoring")]
)
def test_help_calls_the_command_as_it_was_started(started_as, name, monkeypatch):
    monkeypatch.setattr(sys, "argv", [started_as])
    assert parser().format_usage().startswith(f"usage: {name} ")


@pytest.mark.parametrize(
    ("arguments", "missing"),
    [
        ([], "command"),
        (["perplexity", "--texts", "a.txt"], "--model"),
        (["perplexity", "--model", "a"], "--texts"),
        (["score"], "--scorer"),
        (["report-card", "a.csv"], "--scorer"),
        (["safety"], "FILE"),
        (["stereotype"], "FILE"),
        (["effect"], "FILE"),
        (["convert-scorer", "profanity"], "SOURCE, FOLDER"),
        (["fetch-manifest"], "URL, FOLDER"),
        (["check-manifest"], "FOLDER"),
    ],
)
def test_what_a_command_needs_is_asked_for(arguments, missing, capsys):
    with pytest.raises(SystemExit) as ended:
        run(capsys, *arguments)
    assert ended.value.code == 2
    assert f"the following arguments are required: {missing}\n" in capsys.readouterr().err


def test_a_perplexity_beyond_the_largest_number_is_a_reason(capsys):
    def line(value: float) -> dict:
        return describe_likelihood(TextLikelihood(np.array([value, value], dtype=np.float32), None, 1))

    assert line(-709.0) == {"n_tokens": 2, "log_likelihood": -1418.0, "perplexity": pytest.approx(math.exp(709))}
    reason = "the perplexity exceeds the largest number"
    assert line(-710.0) == {"n_tokens": 2, "log_likelihood": -1420.0, "reason": reason}
