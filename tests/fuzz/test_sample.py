"""A seeded sample of the campaign of `make fuzz`, and the inputs that it has found."""

from pathlib import Path

import pytest

from scoring.evaluation_sets.label_files import read_label_rows
from scoring.language_models.refusals import ModelRefused
from scoring.language_models.tokenizer_rules import check_tokenizer_json
from scoring.refusals import Refused
from scoring.score_files import UnreadableScores, read_odds_ratios
from scoring.text_files import UnreadableTexts, read_texts
from tests.fuzz.campaign import Tally, judge_message, make_input, run_campaign
from tests.fuzz.mutation import LONG
from tests.fuzz.parsers import PARSERS

RUNS = 150


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "plumbline-fuzz-sample"
    folder.mkdir()
    return folder


@pytest.mark.slow_cases
@pytest.mark.parametrize("name", [name for name in PARSERS if name != "query"])  # which needs a board
def test_each_input_is_accepted_or_refused_by_name_within_time_and_memory(name, scratch):
    tally = run_campaign(PARSERS[name], RUNS, 7, scratch, Tally())
    assert tally.finds == {}
    assert tally.accepted + tally.refused == tally.inputs == RUNS
    assert tally.accepted, "no input was like one that is read to its end"


@pytest.mark.slow
@pytest.mark.django_db
def test_each_address_of_rankings_is_read_or_refused_by_name_within_time_and_memory(scratch):
    tally = run_campaign(PARSERS["query"], RUNS, 7, scratch, Tally())
    assert tally.finds == {}
    assert tally.accepted
    assert tally.accepted + tally.refused == tally.inputs == RUNS


def test_an_input_is_fixed_by_its_number():
    parser = PARSERS["gguf"]
    seeds = parser.seeds()
    assert make_input(parser, seeds, 1, 99) == make_input(parser, seeds, 1, 99) != make_input(parser, seeds, 2, 99)


@pytest.mark.parametrize("message", ["", "no", f"wrong: {LONG}", "a bell \a in it", "x" * 7000])
def test_a_message_that_says_nothing_or_repeats_the_content_is_a_find(message):
    assert judge_message(message)
    assert judge_message("labelled.csv, row 1, label: is no label; give harmful or benign") == ""


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("deep.jsonl", b'{"text": ' + b"[" * 100_000),
        ("digits.jsonl", b"9" * 5000),
        ("groups.jsonl", b'{"text": "a", "label": "benign", "groups": 5}'),
    ],
)
def test_labelled_texts_and_texts_of_odd_json_are_refused_by_name(name, content, tmp_path):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(Refused, match=name):
        read_label_rows(path)
    if name != "groups.jsonl":
        with pytest.raises(UnreadableTexts, match=name):
            list(read_texts(path))


def test_an_id_that_stands_twice_is_shortened_in_the_message(tmp_path):
    path = tmp_path / "twice.jsonl"
    path.write_text(f'{{"text": "a", "label": "benign", "id": "{LONG}"}}\n' * 2)
    with pytest.raises(Refused) as refusal:
        read_label_rows(path)
    assert len(str(refusal.value)) < 200


def test_a_model_of_a_tokenizer_whose_type_is_no_name_is_refused():
    with pytest.raises(ModelRefused, match="uses the model"):
        check_tokenizer_json({"model": {"type": []}}, "org/model")


@pytest.mark.parametrize("odds", ['"slice": [1]', '"slice": {}', '"odds_base": 1' + "0" * 400])
def test_odds_of_another_type_are_refused(odds, tmp_path):
    path = tmp_path / "odds.json"
    path.write_text(f'[{{"odds_base": 1, "odds_alt": 2, {odds}}}]')
    with pytest.raises(UnreadableScores, match="record 1"):
        read_odds_ratios(path)
