"""Importing: idempotent, all or nothing, and clear about what is wrong."""

import json

import pytest
from django.core.management import CommandError, call_command

from leaderboard.models import AuditEvent, EvaluationSet
from leaderboard.services.seed import seed_metrics
from tests.data import IMPLICIT_HATE, TOXIGEN, needs_implicit_hate, needs_toxigen

pytestmark = pytest.mark.django_db

GOOD = [
    {"id": 1, "text": "first text", "label": "hate", "toxicity_score": 4.0, "target_groups": ["women"]},
    {"id": 2, "text": "second text", "label": "neutral", "toxicity_score": 1.5, "target_groups": ["women"]},
]


@pytest.fixture
def good(tmp_path):
    path = tmp_path / "set.json"
    path.write_text(json.dumps(GOOD))
    return path


def test_importing_twice_changes_nothing(good, capsys):
    for _ in range(2):
        call_command("import_evaluation_set", "toxigen-human", str(good))
    assert "nothing to do" in capsys.readouterr().out
    assert EvaluationSet.objects.filter(slug="toxigen-human").count() == 1
    assert AuditEvent.objects.filter(verb="import evaluation set").count() == 1


def test_a_program_gets_what_was_imported(good, capsys):
    call_command("import_evaluation_set", "toxigen-human", str(good), "--json")
    answer = json.loads(capsys.readouterr().out)
    texts = EvaluationSet.objects.get()
    assert answer == {"slug": "toxigen-human", "version": 1, "kind": texts.kind, "texts": 2, "new": True}


def test_other_texts_become_the_next_version_and_the_first_stays(good):
    seed_metrics()
    call_command("import_evaluation_set", "toxigen-human", str(good))
    first = EvaluationSet.objects.get(slug="toxigen-human")
    good.write_text(json.dumps([*GOOD, GOOD[0] | {"id": 3}]))
    call_command("import_evaluation_set", "toxigen-human", str(good))
    versions = EvaluationSet.objects.filter(slug="toxigen-human").order_by("version")
    assert [(s.version, s.artefact.rows) for s in versions] == [(1, 2), (2, 3)]
    assert versions[0].artefact == first.artefact


def test_a_malformed_file_leaves_nothing_behind_and_names_record_and_field(good):
    good.write_text(json.dumps([GOOD[0], GOOD[1] | {"toxicity_score": 17}]))
    with pytest.raises(CommandError, match=r"record 2 .*toxicity_score.* 17"):
        call_command("import_evaluation_set", "toxigen-human", str(good))
    assert not EvaluationSet.objects.exists()


def test_an_unknown_set_is_refused_with_the_known_names(good):
    with pytest.raises(CommandError, match="toxigen-human"):
        call_command("import_evaluation_set", "toxigen-humans", str(good))


def test_a_missing_file_is_a_message_not_a_traceback(tmp_path):
    with pytest.raises(CommandError, match=r"absent\.json"):
        call_command("import_evaluation_set", "toxigen-human", str(tmp_path / "absent.json"))


@needs_toxigen
def test_toxigen_has_6514_statements_about_13_demographics():
    call_command("import_evaluation_set", "toxigen-human", str(TOXIGEN))
    found = EvaluationSet.objects.get(slug="toxigen-human")
    assert found.artefact.rows == 6514
    assert len(found.counts) == 13
    assert found.counts["women"] == {"harmful": 336, "benign": 305}


@pytest.mark.slow
@needs_implicit_hate
def test_implicit_hate_has_14200_posts():
    call_command("import_evaluation_set", "implicit-hate", str(IMPLICIT_HATE))
    assert EvaluationSet.objects.get(slug="implicit-hate").artefact.rows == 14_200
