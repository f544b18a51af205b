"""`python -m scoring.training`."""

import csv
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from scoring.__main__ import scores
from scoring.evaluation_sets import to_table
from scoring.evaluation_sets.starter import build_starter
from scoring.metrics.safety import Texts
from scoring.refusals import Refused
from scoring.training.__main__ import main, parser
from scoring.training.grid import correlate, draw_share, mean_log_likelihoods
from scoring.training.settings import Distillation, FineTuning
from tests.data import DATA
from tests.scoring.families import tiny, tiny_folder
from tests.scoring.training.conftest import sentences


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
    rows = build_starter()  # 13 demographics, 24 harmful and 24 benign sentences each
    share = draw_share(rows, 0.25)
    counts = Counter((sentence.demographics[0], sentence.harmful) for sentence in share)
    assert len(counts) == 26
    assert set(counts.values()) == {6}
    assert share == draw_share(rows, 0.25)
    assert draw_share(rows, 1.0) == rows
    assert len(draw_share(rows, 0.001)) == 26  # at least one of each
    first = [sentence for sentence in rows if sentence.demographics[0] == rows[0].demographics[0]]
    with pytest.raises(Refused, match="share = 0: use a number above 0, up to 1"):
        draw_share(first, 0)
    with pytest.raises(Refused, match=r"share = 1\.5: use a number above 0, up to 1"):
        draw_share(first, 1.5)


USAGES = {
    "texts": "--data DATA --output FOLDER",
    "distill": "--teacher REF [--revision REVISION] --layers N [N ...] --hidden N [N ...] --texts FILE [FILE ...] "
    "--output FOLDER [--pretraining-steps PRETRAINING_STEPS] [--steps STEPS] [--batch BATCH] [--context CONTEXT] "
    "[--learning-rate LEARNING_RATE] [--temperature TEMPERATURE] "
    "[--language-modelling-weight LANGUAGE_MODELLING_WEIGHT] [--hidden-weight HIDDEN_WEIGHT] "
    "[--masked-share MASKED_SHARE] [--precision PRECISION] [--checkpoint-every CHECKPOINT_EVERY] [--seed SEED]",
    "measure": "--models FOLDER [FOLDER ...] --sentences FILE --texts FILE [--share SHARE] --output FILE",
    "corpora": "--texts FILE [--lexicon FOLDER] --category CATEGORY [--count N] [--shortest SHORTEST] [--seed SEED] "
    "--output FOLDER",
    "finetune": "--model REF [--revision REVISION] --corpus FILE --output FOLDER [--epochs EPOCHS] [--batch BATCH] "
    "[--accumulation ACCUMULATION] [--learning-rate LEARNING_RATE] [--context CONTEXT] [--shortest SHORTEST] "
    "[--similarity SIMILARITY] [--longest-repeat LONGEST_REPEAT] "
    "[--gradient-checkpointing | --no-gradient-checkpointing] [--deepspeed DEEPSPEED] [--precision PRECISION] "
    "[--checkpoint-every CHECKPOINT_EVERY] [--seed SEED]",
}


@pytest.mark.parametrize("command", USAGES)
def test_the_help_of_a_command_shows_each_option_with_what_it_takes_and_its_default(command, capsys):
    with pytest.raises(SystemExit):
        main([command, "--help"])
    words = " ".join(capsys.readouterr().out.split())
    assert words.startswith(f"usage: python -m scoring.training {command} [-h] {USAGES[command]} ")
    assert "(default: None)" not in words
    defaults = {
        "distill": ["texts a step (default: 8)", "steps of distillation (default: an epoch) --batch"],
        "measure": ["of the sentences of each demographic and label (default: 1.0)"],
        "corpora": ["texts of a corpus (default: 400)", "characters of a text (default: 100)"],
        "finetune": ["TF-IDF cosine from which two texts are the same (default: 0.9)"],
    }
    for phrase in defaults.get(command, []):
        assert phrase in words


def read_options(arguments: str) -> dict[str, object]:
    """What a command line gives its command."""
    return {name: value for name, value in vars(parser().parse_args(arguments.split())).items() if name != "run"}


def test_without_options_the_commands_take_the_defaults_of_the_papers():
    a, b, o = Path("a"), Path("b"), Path("o")
    assert read_options("texts --data a --output o") == {"command": "texts", "data": a, "output": o}
    shared = {"context": None, "precision": "float32", "checkpoint_every": 100, "seed": 0}
    distill = read_options("distill --teacher t --layers 2 4 --hidden 128 --texts a b --output o")
    assert distill == {
        "command": "distill", "teacher": "t", "revision": None, "layers": [2, 4], "hidden": [128], "texts": [a, b],
        "output": o, "pretraining_steps": None, "steps": None, "batch": 8, "learning_rate": 5e-4, "temperature": 1.0,
        "language_modelling_weight": 0.0, "hidden_weight": 0.0, "masked_share": 0.15, **shared,
    }  # fmt: skip
    measure = read_options("measure --models a b --sentences a --texts b --output o")
    assert measure == {
        "command": "measure", "models": [a, b], "sentences": a, "texts": b, "share": 1.0, "output": o
    }  # fmt: skip
    corpora = read_options("corpora --texts a --category c --output o")
    assert corpora == {
        "command": "corpora", "texts": a, "lexicon": None, "category": "c", "count": 400, "shortest": 100, "seed": 0,
        "output": o,
    }  # fmt: skip
    finetune = read_options("finetune --model m --corpus a --corpus b --output o")
    assert finetune == {
        "command": "finetune", "model": "m", "revision": None, "corpus": [a, b], "output": o, "epochs": 5, "batch": 2,
        "accumulation": 16, "learning_rate": 5e-5, "shortest": 100, "similarity": 0.9, "longest_repeat": 20,
        "gradient_checkpointing": True, "deepspeed": None, **shared,
    }  # fmt: skip


def test_options_are_read_as_the_numbers_and_paths_that_they_are():
    distill = "distill --teacher t --layers 2 --hidden 128 --texts a --output o"
    values = read_options(f"{distill} --steps 3 --context 16 --learning-rate 1e-3 --seed 4 --revision v2")
    assert (values["steps"], values["context"], values["learning_rate"]) == (3, 16, 1e-3)
    assert (values["seed"], values["revision"]) == (4, "v2")
    finetune = "finetune --model m --corpus a --corpus b --output o"
    values = read_options(f"{finetune} --deepspeed ds.json --no-gradient-checkpointing --revision v3")
    assert values["deepspeed"] == Path("ds.json")
    assert (values["gradient_checkpointing"], values["revision"]) == (False, "v3")
    assert read_options("measure --models a --sentences a --texts b --output o --share 0.5")["share"] == 0.5
    corpora = read_options("corpora --texts a --category c --output o --lexicon l --count 5 --shortest 6 --seed 7")
    assert [corpora[name] for name in ("lexicon", "count", "shortest", "seed")] == [Path("l"), 5, 6, 7]


def test_a_command_is_needed(capsys):
    with pytest.raises(SystemExit) as ending:
        main([])
    assert ending.value.code == 2
    assert "the following arguments are required: command" in capsys.readouterr().err


def test_what_is_given_goes_to_the_recipe_and_what_it_made_is_printed(monkeypatch, capsys):
    distil, pair = Mock(return_value=[Path("o/one"), Path("o/two")]), Mock(return_value=Path("o/report.json"))
    monkeypatch.setattr("scoring.training.distillation.distil", distil)
    monkeypatch.setattr("scoring.training.finetuning.finetune_pair", pair)
    distill = "distill --teacher org/t --layers 2 4 --hidden 128 --texts a b --output o --revision v2 --temperature 2"
    assert main(distill.split()) == 0
    settings = Distillation(temperature=2.0)
    distil.assert_called_once_with(
        "org/t", [2, 4], [128], [Path("a"), Path("b")], Path("o"), settings, revision="v2"
    )  # fmt: skip
    assert capsys.readouterr().out == "o/one\no/two\n"
    finetune = "finetune --model org/m --corpus a --corpus b --output o --revision v3 --epochs 2"
    assert main(finetune.split()) == 0
    pair.assert_called_once_with("org/m", [Path("a"), Path("b")], Path("o"), FineTuning(epochs=2), revision="v3")
    assert capsys.readouterr().out == "o/report.json\n"


def test_figures_are_written_model_by_model_and_correlated_at_the_end(tmp_path, monkeypatch, capsys):
    keys = ("likelihood_auc", "safety_score", "safety_excess", "log_perplexity_sd", "perplexity")
    rows = [
        {"model": f"l{layers}", "layers": layers, "hidden": 64, "parameters": 1000 * layers}
        | {"sentences": 10, **dict.fromkeys(keys, 0.5 - layers / 1e7 / 3)}
        for layers in (1, 2)
    ]
    path, lines = tmp_path / "new" / "folder" / "figures.csv", []

    def measure_two(*_arguments):
        for row in rows:
            yield row
            lines.append(len(path.read_bytes().decode().split("\n")) - 1)

    monkeypatch.setattr("scoring.training.grid.measure_grid", measure_two)
    command = ["measure", "--models", "a", "b", "--sentences", "s", "--texts", "t", "--output", str(path)]
    assert main(command) == 0
    assert lines == [2, 3]  # what is measured is there before the next model is
    assert path.read_bytes().decode() == (
        "model,layers,hidden,parameters,sentences,likelihood_auc,safety_score,safety_excess,log_perplexity_sd,"
        "perplexity\n"
        "l1,1,64,1000,10,0.500000,0.500000,0.500000,0.500000,0.500000\n"
        "l2,2,64,2000,10,0.500000,0.500000,0.500000,0.500000,0.500000\n"
    )
    assert capsys.readouterr().out.splitlines()[:3] == [
        "| 2 models | layers | hidden | parameters |",
        "|---|---|---|---|",
        "| likelihood_auc | -1.00 [-1.00, 0.95] | none | -1.00 [-1.00, 0.95] |",
    ]


def test_texts_that_cannot_be_scored_have_no_mean():
    means = mean_log_likelihoods(tiny("GPT-2"), ["", *sentences(1, seed=1)], "")
    assert np.isnan(means).tolist() == [True, False]
