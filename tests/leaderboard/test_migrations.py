"""Migrations make what the models declare, and run beside the code of the release before."""

import shutil
import subprocess
import sys
from io import StringIO
from pathlib import Path
from unittest.mock import Mock

import pytest
from django.apps import apps
from django.conf import settings
from django.core.management.commands import migrate as django_migrate
from django.db import OperationalError
from django.db.migrations.autodetector import MigrationAutodetector
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.state import ProjectState
from django.db.models import Model

from leaderboard.management.commands import migrate

MODULES = (
    "leaderboard/models/accounts.py",
    "leaderboard/models/audit.py",
    "leaderboard/models/backups.py",
    "leaderboard/models/calibrations.py",
    "leaderboard/models/control.py",
    "leaderboard/models/entry_checks.py",
    "leaderboard/models/evaluation.py",
    "leaderboard/models/folders.py",
    "leaderboard/models/identities.py",
    "leaderboard/models/language_models.py",
    "leaderboard/models/metrics.py",
    "leaderboard/models/operations.py",
    "leaderboard/models/outbox.py",
    "leaderboard/models/results.py",
    "leaderboard/models/scorers.py",
    "leaderboard/models/search.py",
    "leaderboard/models/served.py",
    "leaderboard/models/submissions.py",
    "leaderboard/models/successions.py",
    "leaderboard/models/work.py",
)
MIGRATION = """
from django.db import migrations, models

class Migration(migrations.Migration):
    dependencies = [("leaderboard", "{previous}")]
    operations = [{operation}]
"""
SAFE = {
    "9001_additive": "migrations.AddField('pulse', 'note', models.CharField(max_length=9, db_default=''))",
    "9002_nullable": "migrations.AddField('pulse', 'host', models.CharField(max_length=9, null=True))",
}
UNSAFE = {
    "9003_without_default": "migrations.AddField('pulse', 'word', models.CharField(max_length=9, default='x'))",
    "9004_dropped": "migrations.RemoveField('pulse', 'note')",
    "9005_renamed": "migrations.RenameField('pulse', 'host', 'place')",
    "9006_another_type": "migrations.AlterField('pulse', 'place', models.IntegerField(null=True))",
    "9007_table_dropped": "migrations.DeleteModel('pulse')",
}
OURS = apps.get_app_config("leaderboard")

pytestmark = pytest.mark.either_database


def path_of(model: type[Model]) -> str:
    """The module that declares it."""
    return model.__module__.replace(".", "/") + ".py"


@pytest.mark.slow
def test_a_migration_that_the_code_of_before_cannot_stand_is_refused_by_name(tmp_path: Path):
    folders = ("scoring", "templates", "static", "tests")
    for name in (*folders, "pyproject.toml", "requirements.lock", "requirements-torch.lock"):
        (tmp_path / name).symlink_to(settings.BASE_DIR / name)
    shutil.copytree(settings.BASE_DIR / "leaderboard", tmp_path / "leaderboard")
    folder = tmp_path / "leaderboard" / "migrations"
    previous = max(path.stem for path in folder.glob("0*.py"))
    for name, operation in (SAFE | UNSAFE).items():
        (folder / f"{name}.py").write_text(MIGRATION.format(previous=previous, operation=operation))
        previous = name
    command = [sys.executable, "-m", "tests.migrations"]
    lint = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert lint.returncode == 1, lint.stderr
    refused = {line.split("'")[1] if "'" in line else line for line in lint.stdout.splitlines() if "ERR" in line}
    assert len(refused) == len(UNSAFE), lint.stdout
    for name in UNSAFE:
        assert any(name in line for line in refused), lint.stdout


@pytest.fixture(scope="module")
def differences() -> dict[str, list[str]]:
    """What the models declare and no migration makes, by the model."""
    loader = MigrationLoader(None)
    detector = MigrationAutodetector(loader.project_state(), ProjectState.from_apps(apps))
    operations = [
        operation
        for migration in detector.changes(loader.graph).get("leaderboard", ())
        for operation in migration.operations
    ]
    by_model: dict[str, list[str]] = {}
    for operation in operations:
        name = getattr(operation, "model_name", None) or operation.name
        by_model.setdefault(name.lower(), []).append(operation.describe())
    return by_model


@pytest.mark.parametrize("module", MODULES)
def test_migrations_make_what_a_module_of_models_declares(module: str, differences: dict[str, list[str]]):
    names = {model._meta.model_name for model in OURS.get_models() if path_of(model) == module}
    assert {name: differences[name] for name in names & differences.keys()} == {}


def test_every_model_is_of_one_of_these_modules():
    assert {path_of(model) for model in OURS.get_models()} == set(MODULES)


class InUse(Exception):
    """What PostgreSQL's driver raises where a table is locked."""

    pgcode = "55P03"


def test_a_migration_pauses_before_each_further_try(monkeypatch):
    events: list[str | float] = []

    def apply(*_arguments, **_options) -> None:
        events.append("try")
        if events.count("try") < 3:
            raise OperationalError from InUse()

    monkeypatch.setattr(django_migrate.Command, "handle", apply)
    monkeypatch.setattr(migrate, "time", Mock(sleep=events.append))
    migrate.Command(stdout=StringIO()).migrate_patiently()
    assert events == ["try", migrate.PAUSE, "try", migrate.PAUSE, "try"]
