"""A board moves from a folder to a bucket while workers of real processes work, by the steps of deploy/README.md."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from django.core.management import call_command

from leaderboard.models import Artefact, LanguageModel, Metric, Rescoring, Scoring, Work
from leaderboard.services.artefacts import mark_storage
from leaderboard.services.evaluate import request_evaluation
from leaderboard.services.evaluation_sets import declare, import_prompts
from leaderboard.services.metrics import Declaration, declare_metric
from leaderboard.services.rescore import open_rescoring
from leaderboard.storage import BoardStorage
from scoring.evaluation_sets import build_regard, get
from tests.faults.worker import ROOT, database_url, wait_until, worker
from tests.leaderboard.conftest import CAUSAL, OTHER_CAUSAL, models  # noqa: F401 (a fixture)
from tests.leaderboard.storages import bucket_address, object_store, use_storage  # noqa: F401 (fixtures)

THIRD_CAUSAL = "plumb-gpt2-l4-h256"

pytestmark = [pytest.mark.faults, pytest.mark.either_database, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def in_process(tmp_path: Path) -> Callable[..., dict[str, str]]:
    """The variables of a process on a host of its own, which writes to one storage and may read another one."""

    def describe(host: str, storage: str, also: str = "") -> dict[str, str]:
        (tmp_path / host).mkdir(exist_ok=True)
        return {"PLUMBLINE_VAR": str(tmp_path / host), "STORAGE_URL": storage, "STORAGE_ALSO_URL": also}

    return describe


def declare_small_metric() -> Metric:
    """Forty continuations of ten openings, searched for the words of the starter lexicon."""
    prompts = [prompt for prompt in build_regard() if prompt.group == "women"][:10]
    openings = import_prompts(declare(get("regard-openings")), prompts)[0]
    declaration = Declaration("own-words", "Own words", "lexicon:starter", "lexicon_frequency", "rtp", {"k": 4})
    return declare_metric(declaration, openings)


def is_done(work: Work) -> bool:
    return type(work).objects.values_list("state", flat=True).get(pk=work.pk) == Work.State.DONE


def move_files(variables: dict[str, str]) -> int:
    """Run `manage.py storage move` as an operator; returns how many files it copied."""
    command = [sys.executable, "manage.py", "storage", "move", "--json"]
    environment = os.environ | {"DATABASE_URL": database_url()} | variables
    answer = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, check=True).stdout
    copied_count: int = json.loads(answer)["copied"]
    return copied_count


def test_a_board_moves_to_a_bucket_while_workers_work_and_goes_on_without_the_folder(
    models: dict[str, LanguageModel],  # noqa: F811
    tmp_path: Path,
    bucket_address: str,  # noqa: F811
    use_storage: Callable[..., BoardStorage],  # noqa: F811
    in_process: Callable[..., dict[str, str]],
):
    folder, bucket = tmp_path / "files", bucket_address
    use_storage(f"file://{folder}")
    mark_storage()
    metric = declare_small_metric()
    before = request_evaluation(models[CAUSAL], metric)
    with worker(name="old", **in_process("old", f"file://{folder}")):
        wait_until(lambda: is_done(before))
    use_storage(f"file://{folder}", bucket)
    mark_storage()
    meanwhile = [request_evaluation(models[name], metric) for name in (OTHER_CAUSAL, THIRD_CAUSAL)]
    mover = in_process("mover", bucket, f"file://{folder}")
    with (
        worker(name="writes-to-the-old", **in_process("a", f"file://{folder}", bucket)),
        worker(name="writes-to-the-new", **in_process("b", bucket, f"file://{folder}")),
    ):
        wait_until(lambda: all(is_done(scoring) for scoring in meanwhile))
    assert move_files(mover) > 0
    assert move_files(mover) == 0
    folder.rename(tmp_path / "taken away")
    use_storage(bucket)
    rescoring = open_rescoring(metric, "by files of the bucket alone")
    with worker(name="new", **in_process("new", bucket)):
        wait_until(lambda: Rescoring.objects.get(pk=rescoring.pk).state == Rescoring.State.PUBLISHED)
    version = metric.current_version()
    assert version.number == 2
    assert version.scorings.filter(state=Work.State.DONE).count() == 3
    assert not Scoring.objects.filter(state=Work.State.FAILED).exists()
    assert not Artefact.objects.filter(state__in=Artefact.LOST).exists()
    call_command("verify")  # raises where a number does not follow from the files of the bucket
