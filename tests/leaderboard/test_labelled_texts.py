"""Labelled texts on a board: imported for report cards with licence, language and source, and for nothing else."""

import json
from io import StringIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from django.core.management import CommandError, call_command

from leaderboard.models import EvaluationSet, Metric
from leaderboard.services import calibrations
from leaderboard.services.metrics import Declaration, declare_metric
from leaderboard.services.seed import seed_labelled_texts
from scoring.refusals import Refused

pytestmark = pytest.mark.django_db

OWN = [
    {"id": "a", "text": "one", "label": "harmful", "groups": ["women"], "language": "de"},
    {"id": "b", "text": "two", "label": "benign", "functionality": "greeting", "paraphrase_of": "a"},
]
WORDS = ("--licence", "CC0", "--from", "our annotators", "--language", "en")


def bring(*words: str) -> str:
    output = StringIO()
    call_command("import_evaluation_set", *words, stdout=output)
    return output.getvalue()


@pytest.fixture
def own(tmp_path):
    path = tmp_path / "own.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in OWN))
    return path


def test_texts_of_your_own_come_with_licence_language_and_source(own):
    assert "our-texts v1: 2 labelled texts, 1 demographics" in bring("our-texts", str(own), "--labelled", *WORDS)
    texts = EvaluationSet.objects.get()
    assert (texts.kind, texts.licence, texts.source) == ("labelled_texts", "CC0", "our annotators")
    assert texts.languages == {"de": 1, "en": 1}
    labelled = calibrations.load_labelled_texts(texts)
    assert labelled.harmful.tolist() == [True, False]
    assert {name: member.tolist() for name, member in labelled.groups.items()} == {"women": [True, False]}
    assert labelled.functionalities.tolist() == ["", "greeting"]
    assert labelled.paraphrase_of.tolist() == ["", "a"]
    assert "nothing to do" in bring("our-texts", str(own), "--labelled", *WORDS)


def test_csv_and_parquet_hold_the_same(own, tmp_path):
    bring("our-texts", str(own), "--labelled", *WORDS)
    columns = dict.fromkeys(key for row in OWN for key in row)
    pq.write_table(pa.table({key: [row.get(key) for row in OWN] for key in columns}), tmp_path / "own.parquet")
    (tmp_path / "own.csv").write_text(
        "id,text,label,groups,language,functionality,paraphrase_of\na,one,harmful,women,de,,\n"
        "b,two,benign,,,greeting,a\n"
    )
    for name in ("own.parquet", "own.csv"):
        assert "nothing to do" in bring("our-texts", str(tmp_path / name), "--labelled", *WORDS)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--from", "us", "--language", "en"), "licence: is missing"),
        (("--licence", "CC0", "--language", "en"), "source: is missing, and report cards say it; give it with --from"),
        (("--licence", "CC0", "--from", "us"), "language: the text b names none"),
    ],
)
def test_what_a_report_card_has_to_say_is_required(own, words, message):
    with pytest.raises(CommandError, match=message):
        bring("our-texts", str(own), "--labelled", *words)
    assert not EvaluationSet.objects.exists()


def test_a_set_of_the_field_is_read_in_its_form_and_keeps_what_it_tests(tmp_path):
    path = tmp_path / "test_suite_cases.csv"
    path.write_text(
        ",functionality,case_id,test_case,label_gold,target_ident\n0,derog_h,7,one,hateful,women\n"
        "1,ident_nh,8,two,non-hateful,\n"
    )
    bring("hatecheck", str(path))
    texts = EvaluationSet.objects.get()
    assert (texts.licence, texts.languages) == ("CC BY 4.0", {"en": 2})
    assert texts.source.startswith("https://raw.githubusercontent.com/paul-rottger/hatecheck-data/")
    assert calibrations.load_labelled_texts(texts).functionalities.tolist() == ["derog_h", "ident_nh"]


def test_labelled_texts_take_the_slug_of_no_other_set(own, tmp_path):
    (tmp_path / "prompts.csv").write_text("id,prompt\n1,Once\n")
    bring("our-texts", str(tmp_path / "prompts.csv"), "--prompts", "--licence", "CC0")
    with pytest.raises(CommandError, match="slug = 'our-texts': it is a set of prompts; choose another"):
        bring("our-texts", str(own), "--labelled", *WORDS)
    with pytest.raises(CommandError, match="hatecheck is a set of the catalogue: leave --labelled out"):
        bring("hatecheck", str(own), "--labelled", *WORDS)


def test_no_likelihood_metric_is_measured_on_texts_for_report_cards(own):
    bring("our-texts", str(own), "--labelled", *WORDS)
    with pytest.raises(Refused, match="labelled"):
        declare_metric(Declaration("safety-own", "Safety", "", "safety", "likelihood", {}), EvaluationSet.objects.get())
    assert not Metric.objects.exists()


def test_a_new_board_has_mentions_of_identities_and_paraphrases_to_calibrate_on():
    for _ in range(2):
        seed_labelled_texts()
    mentions, paraphrases = calibrations.labelled_sets()
    assert [mentions.slug, paraphrases.slug] == ["identity-mentions", "paraphrases"]
    assert EvaluationSet.objects.count() == 2
    texts = calibrations.load_labelled_texts(mentions)
    assert not texts.harmful.any()
    assert np.unique(texts.functionalities).size == 5
