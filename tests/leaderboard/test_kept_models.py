"""Models that stay loaded between tasks: within a bound, the least recently used one going first."""

import time
from contextlib import ExitStack

import pytest

from leaderboard.services import artefacts, cages, kept_models
from leaderboard.services.kept_models import KEPT_MODELS, KeptModels, OpenModel
from leaderboard.services.memory import GB
from leaderboard.services.recollect import recollect
from scoring.cage import CageTimeout
from tests.leaderboard.conftest import CAUSAL, finish


def an_open_model(name: str, gigabytes: float, closed: list[str]) -> OpenModel:
    stack = ExitStack()
    stack.callback(closed.append, name)
    return OpenModel(None, (), gigabytes * GB, stack, opened_at=float("inf"))


def test_the_least_recently_used_models_are_closed_beyond_the_bound(settings):
    settings.KEPT_MODELS_GB = 3.0
    closed: list[str] = []
    models = KeptModels()
    for name in ("a", "b", "c"):
        models.keep((name,), an_open_model(name, 1.0, closed))
    model = models.take(("a",))
    assert models.take(("a",)) is None
    models.keep(("a",), model)  # used last now
    models.keep(("d",), an_open_model("d", 1.5, closed))
    assert closed == ["b", "c"]
    models.keep(("e",), an_open_model("e", 4.0, closed))
    assert closed == ["b", "c", "a", "d", "e"]


def test_models_make_way_for_another_that_needs_the_memory_of_the_worker(settings):
    settings.KEPT_MODELS_GB, settings.WORKER_MEMORY_GB = 8.0, 4.0
    closed: list[str] = []
    models = KeptModels()
    for name in ("a", "b"):
        models.keep((name,), an_open_model(name, 1.0, closed))
    models.make_room(2.5 * GB)
    assert closed == ["a"]
    models.close()
    assert closed == ["a", "b"]


def test_a_gpu_holds_one_model_at_a_time(settings, monkeypatch):
    settings.KEPT_MODELS_GB, settings.WORKER_MEMORY_GB = 8.0, 80.0
    monkeypatch.setattr(kept_models, "has_gpu", lambda: True)
    closed: list[str] = []
    models = KeptModels()
    models.keep(("a",), an_open_model("a", 1.0, closed))
    models.make_room(1.0 * GB)
    assert closed == ["a"]


def test_a_quarter_of_the_memory_of_the_worker_is_for_kept_models_unless_an_operator_says_otherwise(settings):
    settings.KEPT_MODELS_GB, settings.WORKER_MEMORY_GB = None, 16.0
    assert kept_models.memory_for_kept() == 4 * GB
    settings.KEPT_MODELS_GB = 0.5
    assert kept_models.memory_for_kept() == 0.5 * GB


@pytest.mark.slow
@pytest.mark.django_db
def test_a_model_is_loaded_once_for_several_tasks_and_anew_after_one_that_broke_off(
    settings, metric, models, monkeypatch
):
    settings.KEPT_MODELS_GB = 2.0
    opened: list[str] = []
    open_model = cages.cage.open_model
    monkeypatch.setattr(
        cages.cage,
        "open_model",
        lambda path, name, *args, **options: (opened.append(name), open_model(path, name, *args, **options))[1],
    )
    try:
        run = finish(models[CAUSAL], metric).run
        assert artefacts.load(run.artefact).num_rows
        assert recollect(run, 3) == (3, [])
        assert recollect(run, 3) == (3, [])
        assert len(opened) == 1
        with pytest.raises(CageTimeout), cages.open_model(models[CAUSAL], "float32", _Lease(run)):
            raise CageTimeout("it took too long")
        assert recollect(run, 3) == (3, [])
        assert len(opened) == 2
    finally:
        KEPT_MODELS.close()


class _Lease:
    """What a cage asks about time and interruptions."""

    def __init__(self, run) -> None:
        self.work = run

    def check(self) -> None:
        """Nothing ends it."""


def test_a_model_whose_cage_lasts_for_no_other_run_is_closed_and_not_given_out(settings):
    settings.KEPT_MODELS_GB, settings.RUN_SECONDS = 8.0, 1000.0
    closed: list[str] = []
    models = KeptModels()
    for name, seconds in (("fresh", 2900.0), ("old", 3100.0)):
        model = an_open_model(name, 1.0, closed)
        model.opened_at = time.monotonic() - seconds
        models.keep((name,), model)
    fresh = models.take(("fresh",))
    assert fresh is not None
    assert models.take(("old",)) is None
    assert closed == ["old"]


def test_a_model_that_was_opened_twice_is_kept_once(settings):
    settings.KEPT_MODELS_GB = 8.0
    closed: list[str] = []
    models = KeptModels()
    models.keep(("a",), an_open_model("first", 1.0, closed))
    models.keep(("a",), an_open_model("second", 1.0, closed))
    assert closed == ["first"]


def test_all_are_closed_at_the_end_even_one_whose_size_nobody_knows(settings, monkeypatch):
    settings.KEPT_MODELS_GB = 8.0
    closed: list[str] = []
    models = KeptModels()
    models.keep(("a",), an_open_model("a", 0.0, closed))
    models.close()
    assert closed == ["a"]
    monkeypatch.setattr(kept_models, "has_gpu", lambda: True)
    models.keep(("b",), an_open_model("b", 0.0, closed))
    models.make_room(1.0 * GB)
    assert closed == ["a", "b"]
