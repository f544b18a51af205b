"""`python -m scoring.training`."""

import csv
import json
import subprocess
import sys
from collections import Counter

import pytest

from scoring.__main__ import scores
from scoring.evaluation_sets import to_table
from scoring.evaluation_sets.starter import build_starter
from scoring.metrics.safety import Texts
from scoring.refusals import Refused
from scoring.training.__main__ import main
from scoring.training.grid import correlate, draw_share, mean_log_likelihoods
from tests.data import DATA
from tests.scoring.families import tiny, tiny_folder


@pytest.mark.slow
def test_the_commands_explain_themselves_without_torch():
    code = "import sys; from scoring.training.__main__ import parser; parser(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize("command", ["texts", "distill", "measure", "corpora", "finetune"])
def test_every_command_has_help(command, capsys):
    with pytest.raises(SystemExit) as ending:
        main([command, "--help"])
    assert ending.value.code == 0
    assert "--output" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("texts", ["--data", "--output"]),
        ("distill", ["--teacher", "--layers", "--hidden", "--texts", "--output"]),
        ("measure", ["--models", "--sentences", "--texts", "--output"]),
        ("corpora", ["--texts", "--category", "--output"]),
        ("finetune", ["--model", "--corpus", "--output"]),
    ],
)
def test_a_command_without_what_it_needs_names_all_of_it(command, options, capsys):
    with pytest.raises(SystemExit) as ending:
        main([command])
    assert ending.value.code == 2
    assert capsys.readouterr().err.rstrip().endswith(f"the following arguments are required: {', '.join(options)}")


@pytest.mark.slow
def test_a_grid_from_the_command_line(texts, tmp_path, capsys):
    sizes = ["--layers", "1", "--hidden", "16", "32", "--steps", "2", "--pretraining-steps", "0", "--context", "16"]
    status = main(
        [
            "distill",
            "--teacher",
            str(tiny_folder("GPT-2")),
            *sizes,
            "--texts",
            str(texts),
            "--output",
            str(tmp_path / "g"),
        ]
    )
    assert status == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith("-distilled-l1-h32")


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--temperature", "0", "distill: temperature = 0.0: use a number above 0"),
        ("--hidden", "65", "distill: hidden = 65: use a multiple of 64"),
        ("--texts", "nowhere.txt", "nowhere.txt"),
        ("--teacher", "./nowhere", "does not exist: give a folder with safetensors"),
    ],
)
def test_what_cannot_be_done_ends_with_a_message(option, value, words, texts, tmp_path, capsys):
    options = {"--teacher": str(tiny_folder("GPT-2")), "--layers": "1", "--hidden": "16", "--texts": str(texts)}
    options |= {"--output": str(tmp_path / "grid"), option: value}
    assert main(["distill", *(part for pair in options.items() for part in pair)]) == 2
    assert words in capsys.readouterr().err
    assert not list(tmp_path.glob("grid/*/model.safetensors"))


@pytest.mark.slow
def test_the_figures_are_those_of_the_safety_command(texts, tmp_path, capsys):
    sentences = [sentence for sentence in build_starter() if sentence.demographics[0] in ("asian", "women")]
    path = tmp_path / "sentences.json"
    records = [
        {
            "id": sentence.id,
            "text": sentence.text,
            "label": "hate" if sentence.harmful else "neutral",
            "toxicity_score": sentence.toxicity,
            "target_groups": list(sentence.demographics),
        }
        for sentence in sentences
    ]
    path.write_text(json.dumps(records))
    models = [str(tiny_folder(name)) for name in ("GPT-2", "Llama")]
    command = ["measure", "--models", *models, "--sentences", str(path), "--texts", str(texts)]
    assert main([*command, "--output", str(tmp_path / "figures.csv")]) == 0
    assert "| safety_score |" in capsys.readouterr().out
    rows = list(csv.DictReader((tmp_path / "figures.csv").read_text().splitlines()))
    assert [row["model"] for row in rows] == [tiny_folder(name).name for name in ("GPT-2", "Llama")]
    means = mean_log_likelihoods(tiny("GPT-2"), [sentence.text for sentence in sentences], "")
    average = scores(Texts.from_table(to_table(sentences)), -means)["average"]
    assert float(rows[0]["safety_score"]) == pytest.approx(average["safety_score"], abs=1e-6)
    bounds = [float(rows[0][f"safety_score_{end}"]) for end in ("low", "high")]
    assert bounds == pytest.approx(average["safety_score_interval"], abs=1e-6)
    assert float(rows[0]["perplexity"]) > 1


def test_a_file_without_a_text_has_no_perplexity_and_is_refused_before_a_model_is_read(tmp_path, capsys):
    (tmp_path / "texts.txt").write_text("\n  \n")
    records = [
        {"id": label, "text": "A.", "label": label, "toxicity_score": 3.0, "target_groups": ["women"]}
        for label in ("hate", "neutral")
    ]
    (tmp_path / "sentences.json").write_text(json.dumps(records))
    command = ["measure", "--models", str(tmp_path / "nothing"), "--sentences", str(tmp_path / "sentences.json")]
    command += ["--texts", str(tmp_path / "texts.txt"), "--output", str(tmp_path / "figures.csv")]
    assert main(command) == 2
    assert f"texts = '{tmp_path / 'texts.txt'}': holds no text; give one a line" in capsys.readouterr().err


def test_correlations_have_intervals_and_none_where_a_size_does_not_vary():
    keys = ("likelihood_auc", "safety_score", "safety_excess", "log_perplexity_sd", "perplexity")
    figures = [
        {"layers": 2, "hidden": width, "parameters": width * width, **dict.fromkeys(keys, value)}
        for width, value in ((64, 0.5), (128, 0.4), (192, 0.45), (256, 0.3), (320, 0.2), (384, 0.25))
    ]
    lines = correlate(figures)
    row = next(line for line in lines if line.startswith("| safety_score |"))
    # Ranks 6 4 5 3 1 2 against 1 to 6: differences 5 2 2 1 4 4; 1 - 6 (25 + 4 + 4 + 1 + 16 + 16) / (6 x 35).
    assert row.split("|")[2].strip() == "none"
    assert row.split("|")[3].strip().startswith(f"{1 - 6 * 66 / 210:.2f} [-")


@pytest.mark.slow
@pytest.mark.skipif(not (DATA / "wikitext-2").is_dir(), reason="needs WikiText-2 and BOLD in PLUMBLINE_DATA")
def test_texts_are_written_one_a_line(tmp_path):
    assert main(["texts", "--data", str(DATA), "--output", str(tmp_path)]) == 0
    for name in ("wikitext-valid", "wikitext-test", "bold-wikipedia"):
        lines = (tmp_path / f"{name}.txt").read_text(encoding="utf-8").splitlines()
        assert len(lines) > 1000
        assert len(set(lines)) == len(lines)
        assert min(map(len, lines)) >= 40


def test_missing_data_is_named(tmp_path, capsys):
    assert main(["texts", "--data", str(tmp_path), "--output", str(tmp_path / "out")]) == 2
    assert "wikitext-2 is missing: set --data to the folder" in capsys.readouterr().err


def test_a_share_of_the_sentences_is_of_each_demographic_and_label():
    sentences = build_starter()  # 13 demographics, 24 harmful and 24 benign sentences each
    share = draw_share(sentences, 0.25)
    counts = Counter((sentence.demographics[0], sentence.harmful) for sentence in share)
    assert len(counts) == 26
    assert set(counts.values()) == {6}
    assert share == draw_share(sentences, 0.25)
    assert draw_share(sentences, 1.0) == sentences
    with pytest.raises(Refused, match="share = 0: use a number above 0, up to 1"):
        draw_share(sentences, 0)
