"""Which process of a deployed board is given which secret."""

from pathlib import Path

import pytest
import yaml
from django.conf import settings

DEPLOY = Path(settings.BASE_DIR) / "deploy"
WORKERS = ("worker", "files-worker", "gpu-worker")
KEPT_FROM = {  # by secret: the roles that have no use for it
    "SECRET_KEY=": WORKERS,
    "EMAIL_URL=": ("web", *WORKERS),
    "ALERT_WEBHOOK=": ("web", *WORKERS),
    "METRICS_TOKEN=": ("beat", *WORKERS),
    "GITHUB_CLIENT_SECRET=": ("beat", *WORKERS),
    "HF_TOKEN=": ("beat", "worker", "gpu-worker"),
    "COMPLETIONS_API_KEY=": ("web", "beat", "worker", "files-worker"),
    "COMPLETIONS_API_KEYS=": ("web", "beat", "worker", "files-worker"),
    "PERSPECTIVE_API_KEY=": ("beat", "files-worker", "gpu-worker"),
    "OPENAI_MODERATION_API_KEY=": ("beat", "files-worker", "gpu-worker"),
    "AZURE_CONTENT_SAFETY_API_KEY=": ("beat", "files-worker", "gpu-worker"),
    "JUDGE_API_KEY=": ("beat", "files-worker", "gpu-worker"),
}


@pytest.mark.parametrize("secret", KEPT_FROM)
def test_a_secret_stands_in_the_files_of_those_who_need_it_alone(secret):
    for role in ("common", *KEPT_FROM[secret]):
        assert f"\n#{secret}" not in (DEPLOY / "env" / f"{role}.env.example").read_text()
    assert any(f"\n#{secret}" in path.read_text() for path in (DEPLOY / "env").iterdir())


def test_every_process_reads_the_common_file_and_its_own():
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    for role in ("web", "beat", *WORKERS):
        files = [entry["path"] for entry in services[role]["env_file"]]
        assert files == ["env/common.env", f"env/{role}.env"]
        signs = services[role]["environment"]["SECRET_KEY"] != "workers-sign-nothing"
        assert signs == (role not in WORKERS)
        unit = (DEPLOY / "systemd" / f"plumbline-{role}.service").read_text()
        assert "EnvironmentFile=/etc/plumbline/common.env\nEnvironmentFile=-/etc/plumbline/" + f"{role}.env\n" in unit
        assert ("SECRET_KEY=workers-sign-nothing" in unit) == (role in WORKERS)
        assert "UMask=0077\n" in unit
        assert "StateDirectoryMode=0700\n" in unit
