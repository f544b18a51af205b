"""A web server may be installed without what runs models: a worker then looks into the models of the hub."""

import subprocess
import sys
import threading
import tomllib

import pytest
from django.conf import settings
from django.core.cache import cache
from kombu.exceptions import OperationalError

from leaderboard import tasks
from leaderboard.celery import app
from leaderboard.models import LanguageModel
from leaderboard.services import cages, devices, look_ups
from leaderboard.services.language_models import add_bundled
from leaderboard.services.seed import seed
from scoring.cage import CageUnavailable
from scoring.language_models import Architecture, Gated, HubBusy, HubUnavailable, ResolvedModel
from scoring.refusals import Refused
from tests.leaderboard.conftest import CAUSAL
from tests.pins import read_lock

pytestmark = pytest.mark.either_database

ENGINE = ("torch", "transformers", "detoxify", "sklearn", "gguf", "accelerate", "sentencepiece")
MODEL = ResolvedModel(
    "hub",
    "org/name",
    "a" * 40,
    Architecture("causal", "gpt2", "GPT2LMHeadModel", "GPT-2", 10, 1, 1, 8, 8, 9),
    "mit",
    40,
)
# A process to which the libraries are as absent as where they are not installed.
WITHOUT = f"""
import importlib.util, sys
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name in {ENGINE!r} else find(name, *rest)
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {ENGINE!r}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
"""


def run_without_engine(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT + code], cwd=settings.BASE_DIR, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(look_ups, "has_engine", lambda: False)
    monkeypatch.setattr(cages, "prepare", lambda: pytest.fail("no cage for models can be had here"))


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A worker that takes what is sent, in a thread; the names of the queues that were sent to."""
    queues = []

    def send_task(name: str, arguments: list, queue: str, expires: float) -> None:
        queues.append(queue)
        assert expires > 0
        threading.Thread(target=getattr(tasks, name.rpartition(".")[2]), args=arguments).start()

    monkeypatch.setattr(app, "send_task", send_task)
    return queues


@pytest.fixture(autouse=True)
def _cache_of_this_process(settings) -> None:
    settings.CACHES = {**settings.CACHES, "default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
    cache.clear()


@pytest.mark.slow
def test_the_site_needs_no_library_of_the_engine():
    modules = "leaderboard.urls, leaderboard.worker, leaderboard.management.commands.demo_drift, scoring.cage.work"
    code = f"import django; django.setup(); import {modules}; from django.core.management import get_commands\n"
    code += "import leaderboard.services.build as build; print(sorted(scoring.cage.work.VERBS))\n"
    code += "from leaderboard.storage import board_storage; board_storage().exists('x')\n"
    code += "assert not {'boto3', 'storages'} & set(sys.modules), 'only a board with a bucket needs the client'"
    environment = "import os; os.environ['DJANGO_SETTINGS_MODULE'] = 'leaderboard.settings'\n"
    verbs = run_without_engine(environment + code)
    assert "read results" in verbs
    assert "describe" not in verbs, "describing a model needs the engine"


def test_the_lock_of_the_site_pins_what_the_whole_lock_pins_without_the_engine():
    site = {pin.name: pin.version for pin in read_lock("requirements-site.lock")}
    locks = ("requirements.lock", "requirements-torch.lock")
    whole = {pin.name: pin.version for lock in locks for pin in read_lock(lock)}
    assert site.items() <= whole.items()
    project = tomllib.loads((settings.BASE_DIR / "pyproject.toml").read_text())["project"]
    engine = {
        name.partition("==")[0].partition("~=")[0].partition(">=")[0]
        for name in project["optional-dependencies"]["engine"]
    }
    assert "torch" in engine
    assert engine <= whole.keys()
    assert not engine & site.keys()


def test_a_worker_looks_into_the_model_and_the_site_gets_what_it_saw(no_engine, worker, monkeypatch):
    monkeypatch.setattr(cages, "look_up", lambda *_: MODEL)
    assert look_ups.look_up("org/name", "main", 5.0) == MODEL
    assert worker == ["readings"]


@pytest.mark.parametrize(
    ("error", "expected"), [(Gated("it is gated"), Gated), (HubBusy("it asks to wait", 9.0), HubUnavailable)]
)
def test_what_the_worker_is_refused_is_refused_here_in_the_same_words(no_engine, worker, monkeypatch, error, expected):
    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr(cages, "look_up", refuse)
    with pytest.raises(expected, match=str(error)):
        look_ups.look_up("org/name", None, 5.0)


def test_where_no_worker_answers_or_no_broker_the_site_says_so_in_time(no_engine, monkeypatch):
    monkeypatch.setattr(look_ups, "PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(look_ups, "READING", 0.05)
    monkeypatch.setattr(app, "send_task", lambda *_args, **_kwargs: None)
    with pytest.raises(CageUnavailable, match="no worker looked into org/name within"):
        look_ups.look_up("org/name", None, 0.05)

    def fail(*_args: object, **_kwargs: object) -> None:
        raise OperationalError

    monkeypatch.setattr(app, "send_task", fail)
    with pytest.raises(CageUnavailable, match="the broker does not answer"):
        look_ups.look_up("org/name", None, 0.05)


@pytest.mark.slow
@pytest.mark.django_db
def test_a_host_without_the_engine_seeds_all_but_models_and_says_where_those_are_added(monkeypatch):
    monkeypatch.setattr(devices, "find_spec", lambda _name: None)
    lines: list[str] = []
    seed(lines.append)
    assert any("this host has no engine" in line for line in lines)
    assert LanguageModel.objects.filter(source="published").exists()
    with pytest.raises(Refused, match="as on a worker's host"):
        add_bundled()


@pytest.mark.django_db
def test_models_that_come_with_plumbline_are_read_once(models, monkeypatch):
    monkeypatch.setattr(devices, "find_spec", lambda _name: None)
    assert {model.name: model for model in add_bundled()} == models
    LanguageModel.objects.filter(name=CAUSAL).update(revision="sha256:of-other-weights")
    with pytest.raises(Refused, match="as on a worker's host"):
        add_bundled()
