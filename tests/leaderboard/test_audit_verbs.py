"""What is done has a verb of a closed set, which says who reads of it."""

import ast
import re
from pathlib import Path

import pytest

from leaderboard import models
from leaderboard.exchange.tables import public_events
from leaderboard.models import AuditEvent, AuditVerb
from leaderboard.models.audit import LogSection
from leaderboard.operations.services import work
from leaderboard.queries.changes import KINDS, OF_VERB
from leaderboard.services.audit import record
from leaderboard.submissions.services import entry_decisions, moderation

ROOT = Path(models.__file__).parent.parent
CHANGE = (ROOT.parent / "templates" / "partials" / "change.html").read_text(encoding="utf-8")

UNTOLD = {LogSection.OPERATORS, LogSection.PEOPLE}


def test_a_misspelt_verb_is_refused(db):
    with pytest.raises(ValueError, match=r"verb = 'publish verson': .*declare it in AuditVerb"):
        record("publish verson", "metric safety", {})
    assert not AuditEvent.objects.exists()


def test_every_verb_says_who_reads_of_it_and_every_section_of_the_log_is_told():
    assert {kind.key for kind in KINDS} == set(LogSection) - UNTOLD
    assert set(OF_VERB) == {verb.value for verb in AuditVerb if verb.section not in UNTOLD}
    assert all(kind.verbs for kind in KINDS)


def test_the_log_has_words_for_every_public_verb():
    worded = set(re.findall(r'if change\.verb == "([^"]+)"', CHANGE))
    assert worded == set(OF_VERB)


def test_decisions_and_the_steering_of_work_have_verbs():
    assert {decision: f"{decision} submission" for decision in moderation.DECISIONS} == moderation.VERBS
    assert {decision: f"{decision} entry" for decision in entry_decisions.DECISIONS} == entry_decisions.VERBS
    for table in (models.Run, models.Scoring):
        assert work.RETRIES[table] == f"retry {table.kind.key}"
        assert work.CANCELS[table] == f"cancel {table.kind.key}"


def test_a_public_event_is_exported_and_an_operational_one_is_not(db):
    record(AuditVerb.FIND_DRIFT, "metric safety", {})
    record(AuditVerb.RESTART_WORKER, "worker gpu@host", {})
    assert [event.verb for event in public_events()] == ["find drift"]


@pytest.mark.slow
def test_no_code_writes_a_verb_as_text():
    texts = []
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "record":
                texts += [f"{path.name}:{node.lineno}" for first in node.args[:1] if isinstance(first, ast.Constant)]
    assert texts == []
