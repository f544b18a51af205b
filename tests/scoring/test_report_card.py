"""The report card of a scorer: figures against independent ones, forms of labelled texts, and the commands."""

import csv
import io
import itertools
import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics

from scoring.__main__ import main
from scoring.attributes import Attribute
from scoring.evaluation_sets.label_files import read_labelled
from scoring.evaluation_sets.labelled_texts import LabelledTexts, UnreadableLabels, gather_texts
from scoring.evaluation_sets.own_texts import build_identity_mentions, build_paraphrases
from scoring.refusals import Refused
from scoring.report_card import make_card
from scoring.report_card.disturbances import (
    DISTURBANCES,
    MOST_DISTURBED,
    choose_sample,
    disturb_texts,
    measure_effects,
    swap_letters,
)
from scoring.report_card.figures import (
    average_precision,
    bnsp_auc,
    bpsn_auc,
    expected_calibration_error,
    reliability,
    roc_auc,
    share,
)
from scoring.scorer_commands import choose_attribute, describe_scores, require_fingerprint, surroundings_here
from scoring.scorers import Scores, get_scorer
from tests.data import TOXIGEN, needs_toxigen

N = 400


@pytest.fixture(scope="module")
def judged():
    """Scores with ties, labels, and membership in a group, of 400 texts."""
    generator = np.random.default_rng(7)
    harmful = generator.random(N) < 0.4
    scores = np.clip(np.round(0.35 + 0.25 * harmful + generator.normal(0, 0.2, N), 2), 0, 1)
    return scores, harmful, generator.random(N) < 0.3


def labelled(harmful, groups=None, languages=None, functionalities=None) -> LabelledTexts:
    count = len(harmful)
    nothing = np.array([""] * count)
    return LabelledTexts(
        tuple(f"t{n}" for n in range(count)),
        tuple("word " * (1 + n % 9) for n in range(count)),
        np.asarray(harmful, dtype=bool),
        groups or {},
        nothing if languages is None else np.array(languages),
        nothing if functionalities is None else np.array(functionalities),
        nothing,
    )


def test_areas_are_those_of_scikit_learn(judged):
    scores, harmful, member = judged
    assert roc_auc(scores, harmful).value == pytest.approx(metrics.roc_auc_score(harmful, scores), abs=1e-12)
    assert average_precision(scores, harmful) == pytest.approx(
        metrics.average_precision_score(harmful, scores), abs=1e-12
    )
    benign_members_harmful_others = (member & ~harmful) | (~member & harmful)
    assert bpsn_auc(scores, harmful, member).value == pytest.approx(
        metrics.roc_auc_score(harmful[benign_members_harmful_others], scores[benign_members_harmful_others]), abs=1e-12
    )
    harmful_members_benign_others = (member & harmful) | (~member & ~harmful)
    assert bnsp_auc(scores, harmful, member).value == pytest.approx(
        metrics.roc_auc_score(harmful[harmful_members_benign_others], scores[harmful_members_benign_others]), abs=1e-12
    )


def test_the_calibration_error_is_that_of_a_loop_over_texts(judged):
    scores, harmful, _ = judged
    bins: dict[int, list[tuple[float, bool]]] = {}
    for score, label in zip(scores, harmful, strict=True):
        bins.setdefault(min(int(score * 10), 9), []).append((score, label))
    expected = sum(
        abs(sum(score for score, _ in members) - sum(label for _, label in members)) for members in bins.values()
    )
    diagram = reliability(scores, harmful)
    assert expected_calibration_error(diagram) == pytest.approx(expected / N, abs=1e-12)
    assert [(one.lower, one.upper) for one in diagram] == [(number / 10, (number + 1) / 10) for number in sorted(bins)]


@pytest.mark.slow
@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=60))
def test_every_text_is_in_one_bin_and_a_perfect_order_has_an_average_precision_of_1(pairs):
    scores = np.array([score for score, _ in pairs])
    harmful = np.array([label for _, label in pairs])
    diagram = reliability(scores, harmful)
    assert sum(one.harmful.n for one in diagram) == len(pairs)
    assert all(one.lower - 1e-9 <= one.mean_score <= one.upper + 1e-9 for one in diagram)
    assert 0 <= expected_calibration_error(diagram) <= 1
    if harmful.any():
        assert average_precision(harmful.astype(float), harmful) == 1
        assert 0 < average_precision(scores, harmful) <= 1


def test_a_card_counts_errors_by_group_language_functionality_and_length():
    harmful = [True, True, False, False, True, False]
    texts = labelled(
        harmful,
        {"women": np.array([True, True, True, False, False, False])},
        ["en", "en", "en", "de", "de", "de"],
        ["slur_h", "slur_h", "ident_nh", "ident_nh", "", ""],
    )
    card = make_card(texts, np.array([0.9, 0.2, 0.8, 0.1, np.nan, 0.5]), threshold=0.5)
    assert card.unscored == 1
    assert (card.whole.false_positives.value, card.whole.false_positives.n) == (pytest.approx(1 / 3), 3)
    assert (card.whole.false_negatives.value, card.whole.false_negatives.n) == (0.5, 2)
    assert card.groups["women"].about_it.false_positives.value == 1
    assert card.groups["women"].bnsp_auc.value == pytest.approx((1 + 1 + 1 + 0) / 4)  # 0.9 and 0.2 against 0.1 and 0.5
    assert card.groups["women"].bpsn_auc is None, "no harmful text of others has a score"
    assert card.languages["de"].roc_auc is None, "only benign texts in German have a score"
    assert {name: rate.value for name, rate in card.passes.items()} == {"slur_h": 0.5, "ident_nh": 0.5}
    assert card.passes_by_group["women"]["ident_nh"].value == 0
    # Of 5, 10, 15, 20 and 30 characters, without the text that has no score.
    assert {name: part.n for name, part in card.lengths.items()} == {
        "5 to 10 characters": 2,
        "15 to 15 characters": 1,
        "20 to 20 characters": 1,
        "30 to 30 characters": 1,
    }
    assert card.passes_by_group == {"women": {"slur_h": card.passes["slur_h"], "ident_nh": share(np.array([False]))}}


def test_probabilities_from_0_to_1_are_judged_and_a_label_needs_more_than_a_half():
    texts = labelled([True, False, False], {"nobody": np.zeros(3, dtype=bool)})
    card = make_card(texts, np.array([1.0, 0.0, 0.5]))
    assert (card.threshold, card.whole.n, card.unscored) == (0.5, 3, 0)
    assert (card.whole.false_positives.value, card.whole.false_negatives.value) == (0, 0)
    assert card.whole.roc_auc.value == card.average_precision == 1
    assert [(one.lower, one.harmful.value) for one in card.reliability] == [(0, 0), (0.5, 0), (0.9, 1)]
    assert (card.groups, card.languages, card.passes, card.disturbances) == ({}, {}, {}, {})
    benign = make_card(labelled([False, False]), np.array([0.1, 0.6]))
    assert (benign.average_precision, benign.whole.roc_auc, benign.whole.false_negatives) == (None, None, None)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([0.1], "1 scores of 2"),
        ([np.nan, np.nan], "no text has a score"),
        ([0.1, 1.2], "outside 0..1"),
        ([-0.1, 0.5], "outside"),
    ],
)
def test_scores_that_fit_no_texts_are_refused(values, words):
    with pytest.raises(ValueError, match=words):
        make_card(labelled([True, False]), np.array(values))


ROWS = [
    {"id": "a", "text": "the first one", "label": "harmful", "groups": "women;asian", "language": "de"},
    {"id": "b", "text": "the second, one", "label": "benign", "groups": "", "language": ""},
]


def write_own(path):
    if path.suffix == ".csv":
        with path.open("w", newline="") as lines:
            writer = csv.DictWriter(lines, ROWS[0])
            writer.writeheader()
            writer.writerows(ROWS)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n\n" for row in ROWS))
    else:
        pq.write_table(pa.Table.from_pylist(ROWS), path)


@pytest.mark.parametrize("name", ["texts.csv", "texts.jsonl", "texts.parquet"])
def test_texts_of_your_own_are_read_alike_from_each_kind_of_file(name, tmp_path):
    write_own(tmp_path / name)
    texts = read_labelled(tmp_path / name, language="en")
    assert texts.ids == ("a", "b")
    assert texts.texts[1] == "the second, one"
    assert texts.harmful.tolist() == [True, False]
    assert {group: member.tolist() for group, member in texts.groups.items()} == {
        "asian": [True, False],
        "women": [True, False],
    }
    assert texts.languages.tolist() == ["de", "en"]


FILES = {
    "hatecheck": (
        "test_suite_cases.csv",
        ",functionality,case_id,test_case,label_gold,target_ident\n0,derog_h,7,one,hateful,women\n"
        "1,ident_nh,8,two,non-hateful,\n",
    ),
    "rtp-lx": (
        "RTP_LX_PT-BR.json",
        '{"Prompt": "one", "PromptAnnotations": {"Toxicity": [3, 4]}}\n'
        '{"Prompt": "two", "PromptAnnotations": {"Toxicity": 2}}\n',
    ),
    "civil-comments": (
        "all_data.csv",
        "id,comment_text,toxicity,female,asian\n1,one,0.5,0.6,\n2,two,0.49,0.4,0\n",
    ),
}


@pytest.mark.parametrize(
    ("form", "groups", "languages"),
    [
        ("hatecheck", ["women"], ["en", "en"]),
        ("rtp-lx", [], ["pt-br", "pt-br"]),
        ("civil-comments", ["female"], ["en"] * 2),
    ],
)
def test_the_forms_of_the_field_are_read(form, groups, languages, tmp_path):
    name, content = FILES[form]
    (tmp_path / name).write_text(content)
    texts = read_labelled(tmp_path / name, form)
    assert texts.texts == ("one", "two")
    assert texts.harmful.tolist() == [True, False]
    assert [group for group, member in texts.groups.items() if member[0]] == groups
    assert texts.languages.tolist() == languages


def test_comments_are_named_by_their_id_and_else_numbered_from_1(tmp_path):
    (tmp_path / "with.csv").write_text("id,comment_text,toxicity\n7,one,0.5\n9,two,0\n")
    (tmp_path / "without.csv").write_text("comment_text,toxicity\none,0.5\ntwo,0\n")
    assert read_labelled(tmp_path / "with.csv", "civil-comments").ids == ("7", "9")
    assert read_labelled(tmp_path / "without.csv", "civil-comments").ids == ("1", "2")


def test_a_multilingual_case_is_in_the_language_of_its_name(tmp_path):
    path = tmp_path / "hatecheck_cases_final_french.csv"
    path.write_text("mhc_case_id,functionality,test_case,label_gold,target_ident\nfrench-5,slur_h,un,hateful,women\n")
    texts = read_labelled(path, "hatecheck")
    assert (texts.languages.tolist(), texts.functionalities.tolist()) == (["fr"], ["slur_h"])
    (tmp_path / "hatecheck_cases_final_german.csv").write_text(
        "mhc_case_id,functionality,test_case,label_gold,target_ident\ngerman-5,ident_nh,zwei,non-hateful,\n"
    )
    texts = read_labelled(tmp_path, "hatecheck")
    assert (texts.ids, texts.languages.tolist()) == (("french-5", "german-5"), ["fr", "de"])


def test_a_folder_of_rtp_lx_has_a_text_of_one_number_in_each_language(tmp_path):
    for name, prompt, toxicity in (("EN", "one", 3.0), ("PT-BR", "um", 2.9)):
        row = {"Prompt": prompt, "Index": 7, "Annotations": {"Toxicity": toxicity}}
        (tmp_path / f"RTP_LX_{name}.json").write_text(json.dumps(row) + "\n")
    texts = read_labelled(tmp_path, "rtp-lx")
    assert texts.ids == ("en-7", "pt-br-7")
    assert texts.languages.tolist() == ["en", "pt-br"]
    assert texts.harmful.tolist() == [True, False]
    with pytest.raises(UnreadableLabels, match=r"holds no file \*\.csv: give the folder"):
        read_labelled(tmp_path, "hatecheck")


@pytest.mark.parametrize("toxicity", [0, 5.5, "3", None, [3, 6], [3, "4"], [], {"mean": 3}])
def test_a_toxicity_that_no_annotator_can_give_is_refused(tmp_path, toxicity):
    rows = [{"Prompt": "one", "PromptAnnotations": {"Toxicity": value}} for value in (1, 5, [3, 3], toxicity)]
    (tmp_path / "RTP_LX_EN.json").write_text("".join(json.dumps(row) + "\n" for row in rows[:3]))
    assert read_labelled(tmp_path, "rtp-lx").harmful.tolist() == [False, True, True]
    assert read_labelled(tmp_path, "rtp-lx").ids == ("en-1", "en-2", "en-3")
    (tmp_path / "RTP_LX_EN.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(
        UnreadableLabels, match=r"row 4, PromptAnnotations\.Toxicity: is no number from 1 to 5"
    ) as refusal:
        read_labelled(tmp_path, "rtp-lx")
    assert refusal.value.field == "PromptAnnotations.Toxicity"


@pytest.mark.parametrize(
    ("share", "is_right"), [("0", True), ("1", True), ("-0.1", False), ("1.1", False), ("x", False)]
)
def test_a_share_of_annotators_lies_from_0_to_1(tmp_path, share, is_right):
    (tmp_path / "a.csv").write_text(f"text,target,female,male\none,{share},0.5,0.49\n")
    if is_right:
        texts = read_labelled(tmp_path / "a.csv", "civil-comments")
        assert (texts.harmful.tolist(), list(texts.groups)) == ([share == "1"], ["female"])
        return
    with pytest.raises(UnreadableLabels, match="row 1, target: is no share; give a number from 0 to 1"):
        read_labelled(tmp_path / "a.csv", "civil-comments")


def test_cases_without_an_id_are_numbered_and_may_be_about_nobody(tmp_path):
    (tmp_path / "a.csv").write_text("functionality,test_case,label_gold\nslur_h,one,hateful\nslur_h,two,non-hateful\n")
    texts = read_labelled(tmp_path / "a.csv", "hatecheck")
    assert (texts.ids, dict(texts.groups), texts.languages.tolist()) == (("1", "2"), {}, ["en", "en"])
    (tmp_path / "b.csv").write_text("mhc_case_id,test_case,label_gold\nklingon-1,one,hateful\n")
    assert read_labelled(tmp_path / "b.csv", "hatecheck").languages.tolist() == ["klingon"]


def test_texts_of_your_own_may_have_any_word_for_their_label_and_nothing_else(tmp_path):
    words = ["harmful", "hateful", "toxic", "true", "1", "benign", "non-hateful", "neutral", "non-toxic", "false", "0"]
    rows = [{"text": f"a\r\n{number}", "label": f" {word.upper()}"} for number, word in enumerate(words)]
    with (tmp_path / "a.csv").open("w", newline="", encoding="utf-8-sig") as lines:
        writer = csv.DictWriter(lines, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    (tmp_path / "a.jsonl").write_text("\n" + "".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8-sig")
    for name in ("a.csv", "a.jsonl"):
        texts = read_labelled(tmp_path / name)
        assert texts.ids == tuple(str(number) for number in range(1, 12))
        assert texts.texts == tuple(row["text"] for row in rows)
        assert texts.harmful.tolist() == [True] * 5 + [False] * 6
        assert set(texts.languages) == set(texts.functionalities) == set(texts.paraphrase_of) == {""}
        assert not texts.groups


def test_a_paraphrase_names_a_text_of_the_same_file(tmp_path):
    path = tmp_path / "own.csv"
    path.write_text("id,text,label,paraphrase_of\na,one,harmful,\nb,two,harmful,a\n")
    assert read_labelled(path).paraphrase_of.tolist() == ["", "a"]
    path.write_text("id,text,label,paraphrase_of\na,one,harmful,\nb,two,harmful,c\n")
    with pytest.raises(UnreadableLabels, match="paraphrase_of: 'c' is no id of its rows"):
        read_labelled(path)


def test_mentions_of_identities_are_the_same_benign_sentences_for_every_name():
    texts = gather_texts(build_identity_mentions())
    assert not texts.harmful.any()
    assert len(set(texts.texts)) == len(set(texts.ids)) == len(texts)
    counts = {name: member.sum() for name, member in texts.groups.items()}
    assert counts["no identity"] == 40
    assert all(count % 10 == 0 for count in counts.values())
    assert set(texts.languages) == {"en"}


def test_every_paraphrase_has_the_label_of_what_it_says_again():
    rows = {row.id: row for row in build_paraphrases()}
    pairs = [(row, rows[row.paraphrase_of]) for row in rows.values() if row.paraphrase_of]
    assert len(pairs) == 48
    assert all(paraphrase.harmful == original.harmful for paraphrase, original in pairs)
    assert len({row.text for row in rows.values()}) == len(rows)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.csv", "text,label\none,maybe\n", "a.csv, row 1, label: is no label"),
        ("a.csv", "text,label\n ,harmful\n", "row 1, text: is missing or empty"),
        ("a.csv", "text,label\none,harmful,more\n", "more cells than its head"),
        ("a.csv", "id,text,label\n1,one,harmful\n1,two,benign\n", "'1' stands in two rows"),
        ("a.csv", "text,label\n", "holds no text"),
        ("a.jsonl", "{\n", "line 1 is not JSON"),
        ("a.jsonl", "[]\n", "line 1 is no object"),
        ("a.jsonl", '{"text": "one", "label": 1, "groups": 5}\n', "row 1, groups: is no list; give names"),
        ("a.parquet", "no", "is no Parquet"),
        ("a.xlsx", "", "name it .csv, .jsonl, .parquet"),
    ],
)
def test_a_wrong_file_is_refused_with_place_and_remedy_and_without_its_text(name, content, words, tmp_path):
    (tmp_path / name).write_text(content)
    with pytest.raises(UnreadableLabels, match=words) as refusal:
        read_labelled(tmp_path / name)
    assert "maybe" not in str(refusal.value)


def test_swapped_letters_are_the_same_letters_alike_in_each_run():
    text = "the quick brown fox jumps over the lazy dog " * 5
    assert swap_letters(text) == swap_letters(text) != text
    assert sorted(swap_letters(text)) == sorted(text)
    assert [len(word) for word in swap_letters(text).split()] == [len(word) for word in text.split()]


def test_every_letter_of_a_word_changes_places_with_the_next_in_some_words_from_the_first_to_the_last():
    words = ["".join(letters) for letters in itertools.islice(itertools.permutations("abcdef"), 500)]
    swaps = [0] * 5
    for word in words:
        disturbed = swap_letters(word)
        place = 0
        while place < len(word):
            if disturbed[place] == word[place]:
                place += 1
                continue
            assert disturbed[place : place + 2] == word[place + 1] + word[place]
            swaps[place] += 1
            place += 2
    assert min(swaps) > 500 * 0.05  # a tenth of them, a little less behind a pair that was swapped
    assert max(swaps) < 500 * 0.15


def test_effects_are_of_the_texts_that_have_both_scores():
    texts = ["abc", "ABC", "aBcd"]

    def share_of_capitals(rows):
        return np.array([np.nan if len(row) == 4 else sum(map(str.isupper, row)) / len(row) for row in rows])

    disturbed_values = {name: share_of_capitals(disturbed) for name, disturbed in disturb_texts(texts).items()}
    effects = measure_effects(share_of_capitals(texts), disturbed_values, 0.5)
    assert set(effects) == set(DISTURBANCES)
    assert effects["upper case"].mean_change == pytest.approx(0.5)
    assert (effects["upper case"].flips.value, effects["upper case"].flips.n) == (0.5, 2)


def test_a_large_set_is_disturbed_by_one_sample_alike_in_each_run():
    assert choose_sample(3).tolist() == [0, 1, 2]
    sample = choose_sample(100_000)
    assert len(np.unique(sample)) == len(sample) == MOST_DISTURBED
    assert (np.diff(sample) > 0).all()
    np.testing.assert_array_equal(sample, choose_sample(100_000))
    assert sample.mean() == pytest.approx(50_000, rel=0.1)


def test_paraphrases_are_held_against_what_they_say_again():
    texts = labelled([True, True, False, False])
    texts = replace(texts, paraphrase_of=np.array(["", "t0", "", "t2"]))
    effect = make_card(texts, np.array([0.9, 0.4, 0.1, 0.3])).paraphrases
    # From 0.9 to 0.4, and from 0.1 to 0.3: by -0.15 on average, 0.35 without signs; the first crosses 0.5.
    assert (effect.mean_change, effect.mean_distance) == (pytest.approx(-0.15), pytest.approx(0.35))
    assert (effect.flips.value, effect.flips.n) == (0.5, 2)
    assert make_card(labelled([True, False]), np.array([0.9, 0.1])).paraphrases is None
    unscored = make_card(texts, np.array([np.nan, 0.4, 0.1, 0.3])).paraphrases
    assert unscored.flips.n == 1


@pytest.mark.slow
@needs_toxigen
def test_the_command_prints_the_card_of_a_scorer_on_toxigen(capsys):
    assert main(["report-card", str(TOXIGEN), "--form", "safenlp", "--scorer", "profanity", "--disturb"]) == 0
    card = json.loads(capsys.readouterr().out)
    records = json.loads(TOXIGEN.read_text())
    scores = get_scorer("profanity").score([record["text"] for record in records]).values[:, 0]
    harmful = np.array([record["label"] == "hate" for record in records])
    assert card["whole"]["roc_auc"]["value"] == pytest.approx(metrics.roc_auc_score(harmful, scores), abs=1e-9)
    assert card["average_precision"] == pytest.approx(metrics.average_precision_score(harmful, scores), abs=1e-9)
    assert card["whole"]["false_positives"]["value"] == pytest.approx((scores[~harmful] > 0.5).mean())
    assert len(card["groups"]) == 13
    assert set(card["disturbances"]) == set(DISTURBANCES)


def test_texts_on_standard_input_are_scored_by_the_scorer_of_that_fingerprint_only(capsys, monkeypatch):
    texts = ["You are kind.", "half a pair: \ud800", "It rained."]
    scorer = get_scorer("profanity")
    lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    monkeypatch.setattr("sys.stdin", io.StringIO(lines))
    assert main(["score", "--scorer", "profanity", "--fingerprint", scorer.fingerprint()]) == 0
    output = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    values = scorer.score(texts).values[:, 0].tolist()
    assert [line.get("scores") for line in output] == [{"profanity": values[0]}, None, {"profanity": values[2]}]
    assert "surrogate" in output[1]["reason"]
    assert main(["score", "--scorer", "profanity", "--fingerprint", "0" * 64]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert f"profanity has {scorer.fingerprint()} here" in captured.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--attribute", "kindness"], "attribute = 'kindness': the scorer has profanity"),
        (["--threshold", "1"], "threshold = 1.0: use a score from 0 to less than 1"),
    ],
)
def test_a_wrong_choice_is_refused_with_what_there_is(arguments, words, tmp_path, capsys):
    write_own(tmp_path / "texts.csv")
    assert main(["report-card", str(tmp_path / "texts.csv"), "--scorer", "profanity", *arguments]) == 2
    assert words in capsys.readouterr().err


def test_the_command_prints_what_it_measured_by_whom_and_on_how_many_texts(tmp_path, capsys):
    write_own(tmp_path / "texts.csv")
    arguments = ["report-card", str(tmp_path / "texts.csv"), "--scorer", "profanity", "--attribute", "profanity"]
    assert main([*arguments, "--threshold", "0.25", "--language", "nl", "--disturb"]) == 0
    captured = capsys.readouterr()
    card = json.loads(captured.out)
    assert captured.out == json.dumps(card, indent=2) + "\n"
    assert "profanity: 100%" in captured.err
    assert "2/2" in captured.err
    assert "text/s" in captured.err
    scorer = get_scorer("profanity")
    heads = {key: card[key] for key in ("scorer", "fingerprint", "attribute", "texts")}
    assert heads == {
        "scorer": "profanity",
        "fingerprint": scorer.fingerprint(),
        "attribute": "profanity",
        "texts": len(read_labelled(tmp_path / "texts.csv", "own")),
    }
    assert (card["threshold"], sorted(card["languages"])) == (0.25, ["de", "nl"])
    assert set(card["disturbances"]) == set(DISTURBANCES)
    assert main(arguments) == 0
    card = json.loads(capsys.readouterr().out)
    assert (card["threshold"], sorted(card["languages"]), card["disturbances"]) == (0.5, ["de"], {})
    for wrong in (["--form", "none"], ["--threshold", "high"]):
        with pytest.raises(SystemExit):
            main([*arguments, *wrong])


def test_lines_on_standard_input_that_are_no_json_are_named(capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO('{"text": "It rained."}\nIt rained.\n'))
    assert main(["score", "--scorer", "profanity"]) == 2
    assert "score: standard input, line 2 is not JSON: give an object with text" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin", io.StringIO('{"text": "It rained."}\n{"other": 1}\n'))
    assert main(["score", "--scorer", "profanity"]) == 2
    assert "standard input, line 2, text: is missing or no string" in capsys.readouterr().err


def test_where_a_scorer_is_found_is_said_by_the_environment(monkeypatch):
    names = {"PLUMBLINE_SCORERS": "/scorers", "HF_ENDPOINT": "http://hub.example", "HF_TOKEN": "token"}
    for name in (*names, "CHAT_LIMIT_NAME", "GUARD_SERVERS"):
        monkeypatch.delenv(name, raising=False)
    bare = surroundings_here("lexicon:own")
    assert (str(bare.folder), bare.hub_endpoint) == ("var/scorers/lexicon/own", "https://huggingface.co")
    assert (bare.hub_token, bare.chat_limit_name, bare.replies) == (None, "max_completion_tokens", None)
    for name, value in {**names, "CHAT_LIMIT_NAME": "max_tokens"}.items():
        monkeypatch.setenv(name, value)
    replies = object()
    surroundings = surroundings_here("lexicon:own", replies)
    assert (str(surroundings.folder), surroundings.hub_endpoint) == ("/scorers/lexicon/own", "http://hub.example")
    assert (surroundings.hub_token, surroundings.chat_limit_name, surroundings.replies) == (
        "token",
        "max_tokens",
        replies,
    )
    member = surroundings.of_member("profanity")
    assert (str(member.folder), member.replies) == ("/scorers/profanity", replies)


def test_a_scorer_without_a_harm_is_asked_for_an_attribute(monkeypatch):
    scorer = SimpleNamespace(
        attribute_names=("joy", "calm"), attributes=(Attribute("joy", "good"), Attribute("calm", "neutral"))
    )
    with pytest.raises(Refused, match="attribute: the scorer declares no harm; choose one of joy, calm") as refused:
        choose_attribute(scorer, None)
    assert refused.value.field == "attribute"
    assert choose_attribute(scorer, "calm") == (1, scorer.attributes[1])
    scorer.attributes = (Attribute("joy", "good"), Attribute("calm", "harm"))
    assert choose_attribute(scorer, None) == (1, scorer.attributes[1])


def test_another_fingerprint_than_the_wanted_one_is_a_refusal_of_that_field():
    require_fingerprint("profanity", "a", "a", None)
    require_fingerprint("profanity", "a", None, None)
    with pytest.raises(Refused, match="fingerprint = b: profanity has a here, so its scores do not compare") as refused:
        require_fingerprint("profanity", "a", "b", None)
    assert refused.value.field == "fingerprint"


def test_a_score_of_a_text_that_was_cut_says_so():
    scores = Scores(
        np.array([[0.5], [0.25], [np.nan]], dtype=np.float32), (None, None, "empty"), np.array([True, False, False])
    )
    scorer = SimpleNamespace(attribute_names=("joy",))
    assert list(describe_scores(scorer, scores)) == [
        {"scores": {"joy": 0.5}, "truncated": True},
        {"scores": {"joy": 0.25}},
        {"reason": "empty"},
    ]
