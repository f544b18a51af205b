"""Importing prompts: whole or not at all, once, with what was published kept as data of its own."""

import json
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from leaderboard.models import Artefact, EvaluationSet
from leaderboard.services import artefacts
from tests.data import DATA
from tests.leaderboard.continuations import SAMPLE, TEXTS, TOXICITY, records, written

pytestmark = pytest.mark.django_db

REAL_SAMPLE = DATA / "real_toxicity_prompts" / "sample_993.jsonl"


def imported(slug: str, path: Path, *options: str) -> str:
    """What the command says."""
    out = StringIO()
    call_command("import_evaluation_set", slug, str(path), *options, stdout=out)
    return out.getvalue()


@pytest.fixture
def jsonl(tmp_path) -> Path:
    return written(tmp_path / "prompts.jsonl", records())


def test_what_was_published_with_prompts_is_kept_as_artefacts_of_their_own(jsonl):
    said = imported(SAMPLE, jsonl)
    assert said == f"{SAMPLE} v1: 10 prompts, with 20 published scores\n"
    found = EvaluationSet.objects.get()
    assert (found.kind, found.artefact.kind, found.artefact.rows) == ("prompts", "prompts", 10)
    assert artefacts.load(found.artefact)["text"].to_pylist() == TEXTS
    assert artefacts.load(found.artefact)["id"].to_pylist()[:2] == ["0000.txt:0-9", "0001.txt:10-19"]

    scores = artefacts.load(found.prompt_scores).to_pylist()
    assert [row["score"] for row in scores if row["attribute"] == "toxicity"] == TOXICITY
    assert {row["score"] for row in scores if row["attribute"] == "insult"} == {0.25}
    assert {row["id"] for row in scores} == set(artefacts.load(found.artefact)["id"].to_pylist())

    went_on = artefacts.load(found.continuations)
    assert (found.continuations.kind, went_on.num_rows) == ("published_continuations", 10)
    assert set(went_on["text"].to_pylist()) == {" and so it went on."}
    of_those = artefacts.load(found.continuation_scores).to_pylist()
    assert [row["score"] for row in of_those if row["attribute"] == "toxicity"] == [0.01 * n for n in range(10)]
    assert {row["score"] for row in of_those if row["attribute"] == "threat"} == {None}
    assert found.prompt_scores != found.continuation_scores


def test_the_same_prompts_again_change_nothing_and_others_are_the_next_version(jsonl):
    imported(SAMPLE, jsonl)
    first = EvaluationSet.objects.get()
    stored = set(Artefact.objects.values_list("sha256", flat=True))
    assert imported(SAMPLE, jsonl) == f"{SAMPLE} v1 already has exactly these 10 prompts: nothing to do\n"
    assert set(Artefact.objects.values_list("sha256", flat=True)) == stored
    assert EvaluationSet.objects.count() == 1

    assert imported(SAMPLE, written(jsonl, records()[:8])).startswith(f"{SAMPLE} v2: 8 prompts")
    assert EvaluationSet.objects.get(version=1).artefact == first.artefact
    assert EvaluationSet.objects.get(version=2).artefact.rows == 8


def test_scores_of_one_version_are_not_those_of_the_next(jsonl):
    imported(SAMPLE, jsonl)
    bare = [{"id": record["filename"], "text": record["prompt"]["text"]} for record in records()]
    assert imported(SAMPLE, written(jsonl, bare)) == f"{SAMPLE} v2: 10 prompts\n"
    first, second = EvaluationSet.objects.order_by("version")
    assert None not in (first.prompt_scores, first.continuations, first.continuation_scores)
    assert (second.prompt_scores, second.continuations, second.continuation_scores) == (None, None, None)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("own.jsonl", '{"id": "x", "prompt": "The cat", "group": "cats"}\n{"id": "y", "text": "The dog"}\n'),
        ("own.csv", "id,prompt,group\nx,The cat,cats\ny,The dog,\n"),
    ],
)
def test_prompts_of_ones_own_come_as_json_lines_or_csv_under_a_name_of_ones_own(tmp_path, name, content):
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    options = ("--prompts", "--title", "Pets", "--licence", "CC0-1.0")
    assert imported("pets", path, *options) == "pets v1: 2 prompts, 1 demographics or domains\n"
    found = EvaluationSet.objects.get()
    assert (found.title, found.licence, found.kind, found.counts) == ("Pets", "CC0-1.0", "prompts", {"cats": 1})
    assert artefacts.load(found.artefact).to_pylist() == [
        {"id": "x", "text": "The cat", "group": "cats"},
        {"id": "y", "text": "The dog", "group": None},
    ]
    assert found.prompt_scores is None
    assert "nothing to do" in imported("pets", path, *options)


def test_bold_is_imported_from_its_folder(tmp_path):
    for domain in ("gender", "profession"):
        content = {f"{domain}_group": {"Entity": ["One of them was", "", "Another was"]}}
        (tmp_path / f"{domain}_prompt.json").write_text(json.dumps(content), encoding="utf-8")
    assert imported("bold", tmp_path) == "bold v1: 4 prompts, 2 demographics or domains\n"
    found = EvaluationSet.objects.get()
    assert found.counts == {"gender_group": 2, "profession_group": 2}
    assert "CC BY-SA" in found.licence


def test_what_cannot_be_imported_is_refused_with_what_to_do_and_leaves_nothing(jsonl, tmp_path):
    with pytest.raises(CommandError, match=f"there is no evaluation set 'own'.*{SAMPLE}"):
        imported("own", jsonl)
    with pytest.raises(CommandError, match=f"{SAMPLE} is a set of the catalogue: leave --prompts out"):
        imported(SAMPLE, jsonl, "--prompts")
    with pytest.raises(CommandError, match=r"absent\.jsonl"):
        imported(SAMPLE, tmp_path / "absent.jsonl")
    bad = records()[:2]
    bad[1]["prompt"]["toxicity"] = 7
    with pytest.raises(CommandError, match=r"line 2, prompt\.toxicity: is 7"):
        imported(SAMPLE, written(jsonl, bad))
    with pytest.raises(CommandError, match="regard-openings: nothing reads this set yet"):
        imported("regard-openings", jsonl)
    with pytest.raises(CommandError, match="line 2"):
        imported("own", written(jsonl, [*records()[:1], {"text": ""}]), "--prompts")
    assert not EvaluationSet.objects.exists()
    assert not Artefact.objects.exists()


@pytest.mark.skipif(not REAL_SAMPLE.exists(), reason=f"run manage.py fetch_data {SAMPLE}, or set PLUMBLINE_DATA")
def test_the_real_sample_has_993_prompts_all_of_them_toxic():
    said = imported(SAMPLE, REAL_SAMPLE)
    found = EvaluationSet.objects.get()
    assert said.startswith(f"{SAMPLE} v1: 993 prompts, with ")
    assert found.artefact.rows == 993
    scores = artefacts.load(found.prompt_scores).to_pylist()
    toxicity = [row["score"] for row in scores if row["attribute"] == "toxicity"]
    assert len(toxicity) == 993
    assert min(toxicity) > 0.5
