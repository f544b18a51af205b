"""What the demonstration replaces, a service that answers as OpenAI's completions do, and what it waits for."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.management import call_command

from leaderboard.demo.board import put_right
from leaderboard.demo.service import MOST_WORDS, ReplacedService
from leaderboard.models import MetricVersion
from tests.leaderboard.stored import metric_of, runs_on, score_all, version_of

REQUEST = {"model": "demo", "prompt": "On the way to", "n": 3, "seed": 1, "temperature": 1.0, "max_tokens": 20}


def test_the_service_repeats_its_answers_until_it_is_replaced():
    service = ReplacedService()
    answer = service.answer(REQUEST)
    assert (answer["object"], answer["model"]) == ("text_completion", "demo")
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2]
    assert {choice["finish_reason"] for choice in answer["choices"]} == {"length"}
    texts = [choice["text"] for choice in answer["choices"]]
    assert [len(text.split()) for text in texts] == [MOST_WORDS] * 3
    assert len(set(texts)) == 3
    likeliest = service.answer(REQUEST | {"temperature": 0})["choices"]
    assert len({choice["text"] for choice in likeliest}) == 1
    assert service.answer(REQUEST) == answer
    service.replace()
    assert service.answer(REQUEST) != answer


def test_a_drift_is_put_right_when_the_second_version_has_every_model(db):
    metric = metric_of("careful", "profanity")
    version, runs = version_of(metric, "careful"), runs_on(metric)
    assert not put_right(metric, 0)
    score_all(version, runs, {"profanity": lambda x: x})
    assert not put_right(metric, len(runs)), "the first version"
    MetricVersion.objects.update(number=2)
    assert put_right(metric, len(runs))
    assert not put_right(metric, len(runs) + 1), "one model is missing"


def test_the_demonstration_shares_nothing_with_the_board_of_this_folder(
    tmp_path: Path, settings, monkeypatch: pytest.MonkeyPatch
):
    board_settings = {
        "DATABASE_URL": "postgresql://board@db.example.org/board",
        "BROKER_URL": "redis://broker.example.org/0",
        "CACHE_URL": "redis://broker.example.org/1",
        "STORAGE_URL": f"file://{tmp_path}/files",
        "STORAGE_ALSO_URL": f"file://{tmp_path}/more-files",
        "ALERT_EMAIL": "operator@example.org",
        "ALERT_WEBHOOK": "https://alerts.example.org",
        "DEAD_MAN_PING": "https://ping.example.org",
        "SENTRY_DSN": "https://key@sentry.example.org/1",
        "BACKUP_SECONDS": "86400",
        "BACKUP_TARGET": f"{tmp_path}/backups",
        "EMAIL_URL": "submission://board:password@mail.example.org:587",
    }
    environments = []
    monkeypatch.setattr(os, "execve", lambda _path, _arguments, environment: environments.append(environment))
    monkeypatch.setattr(os, "chdir", lambda _folder: None)
    monkeypatch.setattr("leaderboard.management.commands.demo_drift.Command.play", lambda *_: None)
    settings.VAR = tmp_path / "var"
    call_command("demo_drift")
    # As .env is read: what is in the environment stays, also where it is empty.
    environment = board_settings | environments[0]
    names = ("DATABASES", "BROKER_URL", "CACHES", "STORAGES", "ALERT_EMAIL", "ALERT_WEBHOOK", "DEAD_MAN_PING")
    names += ("SENTRY_DSN", "BACKUP_SECONDS", "BACKUP_TARGET", "EMAIL_HOST", "VAR")
    statement = (
        "import json; from leaderboard import settings; "
        f"print(json.dumps({{name: getattr(settings, name) for name in {names}}}, default=str))"
    )
    process = subprocess.run(
        [sys.executable, "-c", statement], env=environment, cwd=settings.BASE_DIR, capture_output=True, check=True
    )
    values = json.loads(process.stdout)
    folder = str(tmp_path / "var" / "demo-drift")
    assert values.pop("VAR") == folder
    assert values["DATABASES"]["default"]["NAME"] == f"{folder}/plumbline.sqlite3"
    assert values["STORAGES"]["default"]["OPTIONS"] == {"location": f"{folder}/artefacts"}
    assert values["CACHES"]["pages"]["LOCATION"] == f"{folder}/pages"
    quiet_names = names[4:-1]
    assert [values[name] for name in quiet_names if values[name]] == []
    assert values["BROKER_URL"] == ""
    assert "example.org" not in json.dumps(values)
