"""The files of deploy/: which process is given which secret, and whether document, units and containers agree."""

import json
import re
import runpy
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.conf import settings
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from environs import EnvError
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from leaderboard import tasks
from leaderboard.models import Backup, ControlCheck, ControlSet, Incident, Worker
from leaderboard.operations.alerts import incidents
from leaderboard.services import artefacts
from tests.deployment import document
from tests.leaderboard.stored import metric_of, version_of
from tests.pins import read_lock

ROOT = Path(settings.BASE_DIR)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
DEPLOY = ROOT / "deploy"
WORKERS = ("worker", "files-worker", "gpu-worker")
KEPT_FROM = {  # by secret: the roles that have no use for it
    "SECRET_KEY=": WORKERS,
    "EMAIL_URL=": ("web", *WORKERS),
    "ALERT_WEBHOOK=": ("web", *WORKERS),
    "METRICS_TOKEN=": ("beat", *WORKERS),
    "GITHUB_CLIENT_SECRET=": ("beat", *WORKERS),
    "HF_TOKEN=": ("beat", "gpu-worker"),
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


BLOCKS = document.read_blocks(DEPLOY / "README.md")
COMMAND_BLOCKS = [block for block in BLOCKS if block.language == document.COMMANDS]
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))


def command_in_unit(role: str) -> list[str]:
    """The words that a unit starts, without the folder of the environment and the name of the worker."""
    unit = (DEPLOY / "systemd" / f"plumbline-{role}.service").read_text()
    words = shlex.split(re.search(r"^ExecStart=(.+)$", unit, re.MULTILINE)[1])
    return [Path(words[0]).name, *(words[1:-2] if "-n" in words else words[1:])]


def test_every_block_of_the_document_is_run_by_the_check_or_is_marked_as_an_example():
    assert document.list_indented(DEPLOY / "README.md") == [], "give these a fence with a language"
    assert {block.language for block in BLOCKS} <= {document.COMMANDS, *document.EXAMPLES}
    for way in (True, False):
        assert any(block.is_for_compose == way and block.installs for block in COMMAND_BLOCKS)


@pytest.mark.parametrize("block", COMMAND_BLOCKS, ids=lambda block: block.title)
def test_a_block_of_commands_can_be_read_by_a_shell_and_names_nothing_of_the_other_way(block):
    subprocess.run(["bash", "-n"], input=block.fill(), text=True, check=True)
    assert not (block.is_for_compose and "systemctl" in block.text)


@pytest.mark.parametrize("example", document.SUBSTITUTES)
def test_what_the_check_replaces_stands_in_the_document(example):
    assert any(example in block.text for block in COMMAND_BLOCKS)


@pytest.mark.parametrize("role", ["beat", *WORKERS])
def test_units_and_containers_start_the_same_commands_on_the_same_queues(role):
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    assert command_in_unit(role) == services[role]["command"]


def test_the_image_starts_the_web_server_as_its_unit_does():
    instruction = re.search(r"^CMD (\[.+\])$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)[1]
    in_image = [word for word in yaml.safe_load(instruction) if word not in ("--worker-tmp-dir", "/dev/shm")]  # noqa: S108
    assert [word.replace("0.0.0.0", "127.0.0.1") for word in in_image] == command_in_unit("web")  # noqa: S104


def test_the_image_is_given_all_that_it_copies():
    allowed = (Path(settings.BASE_DIR) / ".dockerignore").read_text().splitlines()
    instructions = re.findall(r"^COPY (?!--from)(.+)$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    sources = {source for line in instructions for source in line.split()[:-1]} - {"${REQUIREMENTS}"}
    for source in sources | {"requirements-site.lock"}:
        assert f"!{source}" in allowed


def test_root_leaves_nothing_in_the_folder_that_the_image_starts_with():
    instructions = (DEPLOY / "Dockerfile").read_text().partition("\nUSER plumbline\n")[0]
    commands = [line for line in instructions.splitlines() if line.startswith("RUN ") and "manage.py" in line]
    assert commands
    assert [line for line in commands if "PLUMBLINE_VAR=/tmp/build " not in line] == []


def test_units_are_closed_except_for_what_cages_are_made_of():
    for path in UNITS:
        unit = path.read_text()
        for line in ("NoNewPrivileges=true", "CapabilityBoundingSet=", "ProtectSystem=strict", "ProtectProc=invisible"):
            assert f"{line}\n" in unit
        has_cages = any(f"plumbline-{role}.service" == path.name for role in ("web", *WORKERS))
        assert ("SystemCallFilter=landlock_create_ruleset" in unit) == has_cages
        assert ("RestrictNamespaces=user net ipc pid uts\n" in unit) == has_cages


def test_both_ways_require_every_protection_of_cages():
    blocks = [block for block in COMMAND_BLOCKS if block.installs and "CAGE=required" in block.text]
    assert sorted(block.is_for_compose for block in blocks) == [False, True]
    services = yaml.safe_load((DEPLOY / "compose.cage.yaml").read_text())["services"]
    assert set(services) == {"migrate", "web", "files-worker", "gpu-worker"}, "whatever reads models or uploads"
    assert all(service == {"security_opt": ["seccomp=unconfined"]} for service in services.values())


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed")
def test_systemd_scores_the_hardening_of_each_unit_as_the_document_states():
    table = (DEPLOY / "README.md").read_text()
    for path in UNITS:
        command = ["systemd-analyze", "security", "--offline=true", "--no-pager", str(path)]
        verdict = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        score = float(re.search(r"exposure level for [^:]+: ([\d.]+)", verdict)[1])
        row = re.search(rf"^\| `{path.stem}` \| ([\d.]+) \|$", table, re.MULTILINE)
        assert row, f"add {path.stem} to the table in deploy/README.md: {score}"
        assert abs(score - float(row[1])) <= 0.3, "versions of systemd weigh a little differently"


@pytest.mark.parametrize(
    ("locks", "extras"),
    [
        (["requirements.lock", "requirements-torch.lock"], ["site", "engine"]),
        (["requirements-site.lock"], ["site"]),
        (["requirements.lock", "requirements-torch.lock", "requirements-dev.lock"], ["site", "engine", "dev"]),
    ],
)
def test_locks_pin_all_that_the_project_asks_for(locks, extras):
    requirements = PROJECT["dependencies"] + [
        name for extra in extras for name in PROJECT["optional-dependencies"][extra]
    ]
    names = {re.match(r"[\w.-]+", requirement)[0].lower() for requirement in requirements}
    assert names - {pin.name for lock in locks for pin in read_lock(lock)} == set()


def test_every_file_that_a_lock_installs_has_its_hash_and_torch_alone_goes_without():
    for lock in ("requirements.lock", "requirements-site.lock", "requirements-dev.lock"):
        assert {pin.name for pin in read_lock(lock) if not pin.hashes} == set()
        assert "torch" not in {pin.name for pin in read_lock(lock)}
    (torch,) = read_lock("requirements-torch.lock")
    assert f"{torch.name}=={torch.version}" in PROJECT["optional-dependencies"]["engine"]


def test_the_project_the_command_the_checks_and_the_documents_name_the_same_pythons():
    classifiers = [text.rpartition(" ")[2] for text in PROJECT["classifiers"] if "Python" in text]
    first, last = (tuple(map(int, text.split("."))) for text in (classifiers[0], classifiers[-1]))
    following = (last[0], last[1] + 1)
    assert PROJECT["requires-python"] == f">={classifiers[0]},<{following[0]}.{following[1]}"
    assert f"{first} <= sys.version_info < {following}" in (ROOT / "Makefile").read_text()
    workflow = yaml.safe_load((ROOT / ".github/workflows/checks.yml").read_text())
    for job in ("lint", "test"):
        assert workflow["jobs"][job]["strategy"]["matrix"]["python"] == classifiers
    for name in ("README.md", "CONTRIBUTING.md", "templates/docs/operating.html"):
        assert f"Python {classifiers[0]} to {classifiers[-1]}" in (ROOT / name).read_text(), name


@pytest.mark.parametrize("name", ["wrong-number", "fault", "idea"])
def test_a_template_of_issues_is_a_form_whose_fields_have_labels(name):
    form = yaml.safe_load((ROOT / f".github/ISSUE_TEMPLATE/{name}.yml").read_text())
    assert {"name", "description"} <= form.keys()
    fields = [part for part in form["body"] if part["type"] != "markdown"]
    assert fields
    assert all(field["attributes"]["label"] for field in fields)


@pytest.mark.parametrize(("variable", "workers"), [(None, 2), ("5", 5)])
def test_web_processes_is_how_many_processes_serve_the_site(variable, workers, monkeypatch):
    monkeypatch.delenv("WEB_PROCESSES", raising=False)
    if variable:
        monkeypatch.setenv("WEB_PROCESSES", variable)
    assert runpy.run_path(str(ROOT / "leaderboard" / "serving.py"))["workers"] == workers


@pytest.mark.parametrize("value", ["0", "-1", "two"])
def test_a_wrong_number_of_web_processes_is_refused_by_name(value, monkeypatch):
    monkeypatch.setenv("WEB_PROCESSES", value)
    with pytest.raises(EnvError, match='"WEB_PROCESSES" invalid'):
        runpy.run_path(str(ROOT / "leaderboard" / "serving.py"))


def test_the_table_of_alerts_has_every_kind_of_incident():
    table = (DEPLOY / "README.md").read_text().split("| kind | what it means | what to do |")[1].split("\n\n")[0]
    first_cells = "".join(line.split("|")[1] for line in table.splitlines()[2:])
    assert sorted(re.findall(r"`(\w+)`", first_cells)) == sorted(Incident.Kind.values)


# What is watched: alert rules of Prometheus, and a dashboard of Grafana

ALERT_RULES = DEPLOY / "prometheus" / "alerts.yml"
TESTS_OF_ALERTS = ALERT_RULES.with_name("alerts.test.yml")
SELECTOR = re.compile(r"\b(plumbline_\w+)(?:\{([^}]*)\})?")
MATCHER = re.compile(r'(\w+)(=~|=)"([^"]*)"')
LABELS_OF_A_LEGEND = re.compile(r"\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}")


def read_alerts() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load(ALERT_RULES.read_text())["groups"]
    return group["rules"]


def list_expressions() -> Iterator[tuple[str, str]]:
    """Each expression that the rules and the dashboard ask, and the words beside it that name labels."""
    for rule in read_alerts():
        yield rule["expr"], rule["annotations"]["summary"].replace("{{ $value }}", "")
    for panel in json.loads((DEPLOY / "grafana" / "plumbline.json").read_text())["panels"]:
        for target in panel["targets"]:
            yield target["expr"], target["legendFormat"]


@pytest.fixture
def samples(db: None, client: Client) -> list[Sample]:
    """What /metrics gives on a board on which everything that it measures has happened once."""
    artefacts.mark_storage()
    metric = metric_of("rude", "profanity")
    texts_file = metric.protocol.evaluation_set.artefact
    control = ControlSet.objects.create(
        metric_version=version_of(metric, "first"), items=texts_file, reference=texts_file, fingerprint="0" * 64
    )
    ControlCheck.objects.create(
        metric=metric,
        control_set=control,
        artefact=texts_file,
        trigger=ControlCheck.Trigger.SCHEDULE,
        state=ControlCheck.State.DONE,
        verdict=ControlCheck.Verdict.STABLE,
        finished_at=timezone.now(),
    )
    now = timezone.now()
    Worker.objects.create(name="gpu@one", host="one", started_at=now, beat_at=now, disk_free=10**10, queues=["gpu"])
    tasks.sweep()
    incidents.look_once(incidents.DatabaseWatch())
    Backup.objects.create(name="one", target="/mnt/backups", begun_at=now, finished_at=now)
    client.get(reverse("healthz"))
    text = client.get(reverse("prometheus")).content.decode()
    return [sample for family in text_string_to_metric_families(text) for sample in family.samples]


@pytest.mark.slow
def test_alert_rules_and_the_dashboard_ask_for_metrics_and_labels_that_the_board_gives(samples: list[Sample]):
    labels = {sample.name: set(sample.labels) for sample in samples}
    values = {(sample.name, *pair) for sample in samples for pair in sample.labels.items()}
    for expression, words in list_expressions():
        selectors = SELECTOR.findall(expression)
        assert {name for name, _ in selectors} <= labels.keys(), expression
        assert selectors or "up{" in expression
        for name, matchers in selectors:
            for label, operator, value in MATCHER.findall(matchers):
                wanted_values = value.split("|") if operator == "=~" else [value]
                assert {(name, label, wanted) for wanted in wanted_values} <= values, expression
        common_labels = set.intersection(*(labels[name] for name, _ in selectors)) if selectors else set()
        groups = [set(re.findall(r"\w+", names)) for names in re.findall(r"\b(?:by|on) ?\(([^)]*)\)", expression)]
        assert all(group <= common_labels for group in groups), expression
        assert set(LABELS_OF_A_LEGEND.findall(words)) <= set.intersection(common_labels, *groups), (expression, words)


def test_the_job_that_an_alert_watches_is_the_one_that_the_document_configures():
    (jobs,) = [yaml.safe_load(block.text)["scrape_configs"] for block in BLOCKS if "scrape_configs" in block.text]
    watched_jobs = {name for rule in read_alerts() for name in re.findall(r'job="([^"]*)"', rule["expr"])}
    assert watched_jobs == {job["job_name"] for job in jobs}


def test_the_table_of_rules_has_every_alert_of_prometheus():
    table = (DEPLOY / "README.md").read_text().split("| rule | what it means | what to do |")[1].split("\n\n")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == [rule["alert"] for rule in read_alerts()]


def test_every_alert_of_prometheus_has_a_test_of_when_it_comes_and_when_it_does_not():
    tests = yaml.safe_load(TESTS_OF_ALERTS.read_text())["tests"]
    expectations: dict[str, set[bool]] = {}
    for test in tests:
        for case in test["alert_rule_test"]:
            expectations.setdefault(case["alertname"], set()).add(bool(case["exp_alerts"]))
    assert expectations == {rule["alert"]: {True, False} for rule in read_alerts()}


@pytest.mark.skipif(not shutil.which("promtool"), reason="promtool is not installed")
@pytest.mark.parametrize("command", [("check", ALERT_RULES), ("test", TESTS_OF_ALERTS)], ids=["rules", "tests"])
def test_promtool_accepts_the_alert_rules_and_sees_each_come(command: tuple[str, Path]):
    action, path = command
    subprocess.run(["promtool", action, "rules", path.name], cwd=path.parent, check=True)
