"""A short campaign of faults against a whole board: `make soak` is the long one."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import connection

from tests.faults.campaign.report import describe_campaign
from tests.faults.campaign.schedule import COMMANDS, KINDS, LONG_PHASES, PHASES, SHORT, draw
from tests.faults.worker import ROOT

FAULTS, SEED = 20, 3

pytestmark = [pytest.mark.faults, pytest.mark.timeout(2400)]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that PostgreSQL's own user can enter: pytest closes its folders anew with each session that begins."""
    with tempfile.TemporaryDirectory(prefix="campaign-", ignore_cleanup_errors=True) as path:
        yield Path(path)


@pytest.mark.slow
@pytest.mark.longest
@pytest.mark.databases
@pytest.mark.skipif(connection.vendor != "postgresql", reason="costs some minutes: the run on PostgreSQL has it")
def test_a_board_endures_twenty_faults_in_all_phases_of_work(folder: Path):
    command = [sys.executable, "-m", "tests.faults.campaign", "--quick", "--boards", "1", "--folder", str(folder)]
    command += ["--count", str(FAULTS), "--seed", str(SEED), "--database", connection.vendor]
    played = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    logs = "\n".join(path.read_text(errors="replace")[-3000:] for path in folder.rglob("*.log"))
    assert played.returncode == 0, f"{played.stdout[-6000:]}{played.stderr[-2000:]}{logs}"
    assert f"{FAULTS} faults on {connection.vendor} and a folder, seed {SEED}" in played.stdout
    assert f"{FAULTS} held" in played.stdout


@pytest.mark.either_database
@pytest.mark.parametrize("database", ["postgresql", "sqlite"])
def test_every_kind_of_fault_meets_every_phase_and_the_same_seed_draws_the_same(database):
    faults = draw(SEED, 200, database, may_mount=True)
    assert faults == draw(SEED, 200, database, may_mount=True) != draw(SEED + 1, 200, database, may_mount=True)
    assert [fault.index for fault in faults] == list(range(200))
    pairs = {(fault.kind, fault.phase) for fault in faults}
    for kind in KINDS.values():
        phases = {phase for phase in PHASES if (kind.name, phase) in pairs}
        if database not in kind.databases or "folder" not in kind.storages:
            assert not phases
        elif kind.lasts:
            assert len(phases) == LONG_PHASES
        else:
            assert phases == set(PHASES) - set(kind.left_out)


@pytest.mark.either_database
def test_a_quick_campaign_has_many_kinds_and_all_phases_and_none_that_lasts():
    faults = draw(SEED, FAULTS, "postgresql", may_mount=True, quick=True)
    assert {fault.phase for fault in faults} == set(PHASES)
    assert not any(KINDS[fault.kind].lasts for fault in faults)
    kinds = {k.name for k in SHORT if "postgresql" in k.databases and "folder" in k.storages and not k.heavy}
    assert {fault.kind for fault in faults} == kinds


@pytest.mark.either_database
def test_on_a_bucket_its_own_kinds_of_fault_meet_every_phase():
    faults = draw(SEED, 27, "postgresql", "bucket", may_mount=True)
    short, long = ([fault for fault in faults if KINDS[fault.kind].lasts is lasts] for lasts in (False, True))
    assert {fault.phase for fault in short} == set(PHASES)
    assert len({(fault.kind, fault.phase) for fault in faults}) == 27
    assert len(long) == LONG_PHASES


@pytest.mark.either_database
def test_only_a_command_can_be_killed_as_a_command():
    faults = draw(SEED, 400, "postgresql", may_mount=True)
    assert {fault.phase for fault in faults if fault.kind == "kill the command"} == set(COMMANDS)


@pytest.mark.either_database
def test_the_table_counts_what_held_and_says_the_longest_times():
    records = [
        {"kind": "kill web", "phase": "scoring", "violations": [], "in_time": True, "told": None, "recovered": 3.4},
        {"kind": "kill web", "phase": "scoring", "violations": ["lost"], "in_time": True, "recovered": 9.6},
        {"kind": "beat stopped for long", "phase": "upload", "violations": [], "told": 71.2, "recovered": 1.0},
        {"kind": "none", "phase": "upload", "violations": []},
    ]
    table = describe_campaign(records, 7, "postgresql", 12.3)
    assert "3 faults on postgresql, seed 7, in 12 minutes: 2 held." in table
    assert "2 came while the work of their phase was under way" in table
    assert "| kill web |  | 1/2 |  |  |  |  |  |  | 1/2 |  | 10 s |" in table
    assert "| beat stopped for long |  |  |  |  |  | 1/1 |  |  | 1/1 | 71 s | 1 s |" in table
    assert "| all |  | 1/2 |  |  |  | 1/1 |  |  | 2/3 | 71 s | 10 s |" in table
