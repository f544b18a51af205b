"""Migrations run beside the code of the release before: one that this code cannot stand is refused."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings

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

pytestmark = pytest.mark.either_database


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
