"""The cage that strangers' models are run in: what it keeps from them, and the ways it ends. Real processes."""

import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from scoring.cage import (
    LOOK_UP,
    NURSERY,
    CageBroken,
    CageDied,
    CageLimits,
    CageOutOfMemory,
    CageTimeout,
    CageUnavailable,
    confinement,
    open_cage,
    open_model,
    open_reader,
    supervisor,
)
from scoring.cage.landlock import version
from scoring.cage.pipe import read_batches
from scoring.cage.protections import missing_protections
from scoring.cage.schemas import LIKELIHOODS
from scoring.cage.sockets import CALLS
from scoring.cage.supervisor import Nursery, clean_environment
from scoring.evaluation_sets import build_starter
from scoring.language_models import ModelRefused, load, resolve
from scoring.likelihood import LikelihoodSettings, likelihoods_table, token_log_likelihoods
from tests.faults.hostile_models import HONEST, copy_model, with_bomb, with_panic
from tests.faults.worker import stretch, wait_until

pytestmark = pytest.mark.faults

SETTINGS = LikelihoodSettings()
TEXTS = [sentence.text for sentence in build_starter()[:40]]
IDS = [str(number) for number in range(len(TEXTS))]
LONG = [f"{text} ({number})" for number in range(400) for text in TEXTS]  # more than is computed while a test waits


def process_of(cage: object) -> int:
    """The number of the process that keeps watch of a cage's, once it is known."""
    deadline = time.monotonic() + 10
    while not cage._process and time.monotonic() < deadline:
        cage._memory()
        time.sleep(0.01)
    return cage._process


def ends(process: int, seconds: float = 5.0) -> bool:
    """Whether a process is gone within so many seconds."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        status = Path(f"/proc/{process}/status")
        if not status.exists() or "State:\tZ" in status.read_text():
            return True
        time.sleep(0.02)
    return False


def test_likelihoods_from_a_cage_are_those_computed_here():
    found = resolve(str(HONEST))
    here = token_log_likelihoods(load(found.source, found.location, found.revision), TEXTS, SETTINGS)
    expected = likelihoods_table(IDS, list(here))
    steps: list[int] = []
    with open_model(HONEST, "honest", "float32", CageLimits()) as model:
        table = model.likelihoods(IDS, TEXTS, SETTINGS, steps.append)
        assert model.architecture == found.architecture
    assert table.drop_columns("token_log_likelihoods").equals(expected.drop_columns("token_log_likelihoods"))
    inside, outside = (pa.concat_arrays(of["token_log_likelihoods"].chunks).flatten() for of in (table, expected))
    np.testing.assert_allclose(inside, outside, atol=1e-5)
    assert steps == sorted(steps)
    assert 0 < steps[0] <= len(TEXTS)


@pytest.mark.skipif(version() < 4, reason="this kernel has no Landlock that closes the network")
def test_from_within_nothing_is_reached_that_is_not_the_models():
    # Each of these was tried inside: connecting, reading /etc/passwd, writing to /tmp, a signal to this process.
    with open_cage(CageLimits()) as cage:
        assert [(of.name, of.detail) for of in missing_protections(cage.protections)] == []
        assert [of.holds for of in cage.protections if of.name == "user"] == [True if os.getuid() == 0 else None]


SOCKETS = """
import ctypes, socket, sys
from scoring.cage import landlock, sockets
ctypes.CDLL(None).prctl(landlock.NO_NEW_PRIVILEGES, 1, 0, 0, 0)
own, other = socket.socketpair()
assert sockets.refuse_sockets()
for make in (lambda: socket.socket(socket.AF_UNIX), socket.socket, lambda: socket.socketpair(type=socket.SOCK_DGRAM)):
    try:
        make()
    except PermissionError:
        continue
    sys.exit("a socket was made")
assert ctypes.CDLL(None).syscall(sockets.RING, 1, 0) == -1
own.send(b"as before")
print(other.recv(9).decode())
"""


@pytest.mark.skipif(platform.machine() not in CALLS, reason="calls of this machine's architecture are not filtered")
def test_a_process_that_gave_up_sockets_makes_none_of_any_kind_and_keeps_those_that_it_has():
    process = subprocess.run([sys.executable, "-c", SOCKETS], capture_output=True, text=True, check=False)
    assert (process.stdout, process.stderr) == ("as before\n", "")


def test_libraries_in_a_cage_are_told_to_ask_no_hub_whatever_its_worker_was_told():
    variables = clean_environment({"HF_HUB_OFFLINE": "0", "TRANSFORMERS_OFFLINE": "0", "HF_HUB_DISABLE_TELEMETRY": "0"})
    assert {variables[name] for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_HUB_DISABLE_TELEMETRY")} == {"1"}


def test_the_processes_that_read_strangers_files_never_had_a_secret(monkeypatch):
    secrets = {
        "SECRET_KEY": "s1",
        "DATABASE_URL": "s2",
        "HF_TOKEN": "s3",
        "EMAIL_URL": "s4",
        "AWS_SECRET_ACCESS_KEY": "s5",
    }
    assert not set(clean_environment({**os.environ, **secrets})) & set(secrets)
    for name, value in secrets.items():
        monkeypatch.setenv(name, f"not-for-strangers-{value}")
    NURSERY.stop()
    with open_cage(CageLimits()) as cage:
        for process in (NURSERY._process.pid, process_of(cage)):
            content = Path(f"/proc/{process}/environ").read_bytes()
            assert b"not-for-strangers" not in content
            assert not any(name.encode() + b"=" in content for name in secrets)


def test_a_cage_works_in_a_folder_of_its_own_which_goes_with_it():
    with open_cage(CageLimits()) as cage:
        (child,) = Path(f"/proc/{process_of(cage)}/task/{process_of(cage)}/children").read_text().split()
        folder = Path(os.readlink(f"/proc/{child}/cwd"))
        assert folder.name.startswith("plumbline-cage-")
    assert not folder.exists()


def compute(folder: Path, limits: CageLimits, texts: list[str] = TEXTS, **options: Any) -> pa.Table:
    """Likelihoods of the texts from a model in a cage; `processes` remembers who watched it."""
    with open_model(folder, folder.name, "float32", limits, **options) as model:
        processes.append(process_of(model._cage))
        return model.likelihoods([str(number) for number in range(len(texts))], texts, SETTINGS)


processes: list[int] = []


@pytest.fixture
def _unreviewed(monkeypatch) -> Iterator[None]:
    """Cages that read any tokenizer, as if the review of tokenizers had a hole."""
    nursery = Nursery("tests.faults.unreviewed_zygote")
    monkeypatch.setattr(supervisor, "NURSERY", nursery)
    yield
    nursery.stop()


def test_elsewhere_than_on_linux_no_process_is_cut_off_and_that_is_said(monkeypatch):
    namespaces = [os.readlink(f"/proc/self/ns/{name}") for name in ("net", "ipc", "uts")]
    monkeypatch.setattr(confinement, "LINUX", False)
    assert not confinement.enter_namespaces()
    assert [os.readlink(f"/proc/self/ns/{name}") for name in ("net", "ipc", "uts")] == namespaces


def test_a_process_takes_its_own_zygote_along_as_it_ends_and_no_other(monkeypatch):
    nursery = Nursery("tests.faults.sleeping_zygote")
    nursery.prepare()
    process = nursery._process
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: process.pid)  # as after a fork
        nursery.abandon()
    assert process.poll() is None
    nursery.abandon()
    assert process.poll() == -signal.SIGKILL


def test_a_host_that_lacks_protections_is_told_which_and_runs_nothing_where_they_are_required(monkeypatch):
    nursery = Nursery("tests.faults.open_zygote")
    monkeypatch.setattr(supervisor, "NURSERY", nursery)
    folder = Path(tempfile.gettempdir())
    earlier_probes = set(folder.glob("probe-*"))
    try:
        with open_cage(CageLimits()) as cage:
            lacking = {one.name for one in missing_protections(cage.protections)}
        assert {"network", "sockets", "reading", "writing"} <= lacking
        assert set(folder.glob("probe-*")) <= earlier_probes, "what was tried leaves nothing"
        with (
            pytest.raises(CageUnavailable, match=r"no network .* lacks protections that CAGE=required asks for"),
            open_cage(CageLimits(), strict=True),
        ):
            pytest.fail("the cage was opened")
    finally:
        nursery.stop()


@pytest.mark.usefixtures("_unreviewed")
def test_a_tokenizer_bomb_ends_as_a_refusal_and_the_next_model_is_computed(tmp_path):
    limits = CageLimits(memory=2**30, address_space=2**31)
    with pytest.raises(ModelRefused, match=r"bomb ended the process that was trying the tokenizer.*normalizers"):
        compute(with_bomb(tmp_path / "bomb"), limits)
    assert compute(HONEST, limits).num_rows == len(TEXTS)


@pytest.mark.usefixtures("_unreviewed")
def test_a_panic_in_rust_ends_as_a_refusal(tmp_path):
    with pytest.raises(ModelRefused, match=r"panic.*chunk size must be non-zero.*save its tokenizer"):
        compute(with_panic(tmp_path / "panic"), CageLimits())


def abort_inside() -> None:
    """Make the newest cage's process die as a library's assertion does."""
    if len(processes) == 1:
        first = Path(f"/proc/{processes[0]}/task/{processes[0]}/children").read_text().split()
        os.kill(int(first[0]) if first else processes[0], signal.SIGABRT)
        processes.append(0)


def test_a_process_that_dies_is_told_by_its_signal():
    processes.clear()
    with pytest.raises(CageDied, match="signal 6, it aborted") as death:
        compute(HONEST, CageLimits(), LONG, check=abort_inside)
    assert death.value.signal == signal.SIGABRT


class Stop(Exception):
    """What a supervisor raises when work is cancelled."""


def test_what_is_cancelled_ends_at_once_whatever_it_is_at():
    processes.clear()
    cancelled: list[float] = []

    def check() -> None:
        if processes:
            cancelled.append(time.monotonic())
            raise Stop

    with pytest.raises(Stop):
        compute(HONEST, CageLimits(), LONG, check=check)
    assert time.monotonic() - cancelled[0] < stretch(5)
    assert ends(processes[-1])


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (CageLimits(seconds=3), "longer than the 3 s"),
        (CageLimits(idle_seconds=0.05), "no progress for 0.05 s"),
        (CageLimits(memory=50_000_000), "of memory, and may take 0.1"),
    ],
)
def test_a_limit_ends_the_work_and_its_process(limits, words):
    processes.clear()
    with pytest.raises((CageTimeout, CageOutOfMemory, ModelRefused), match=words):
        compute(HONEST, limits, LONG)
    assert all(ends(process) for process in processes)


def test_a_supervisor_that_is_killed_leaves_no_process_and_no_file_behind(tmp_path):
    code = (
        "import time\n"
        "from tests.faults.test_cage import *\n"
        "with open_model(HONEST, 'honest', 'float32', CageLimits()) as model:\n"
        "    print(process_of(model._cage), flush=True)\n"
        "    model.likelihoods([str(n) for n in range(len(LONG))], LONG, SETTINGS)\n"
    )
    command, environment = [sys.executable, "-c", code], os.environ | {"TMPDIR": str(tmp_path)}
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=root, env=environment) as other:
        process = int(other.stdout.readline())
        assert list(tmp_path.glob("plumbline-cage-*"))
        other.kill()
    assert ends(process)
    wait_until(lambda: not list(tmp_path.glob("plumbline-cage-*")), 20)


def test_a_cage_that_answers_with_compressed_or_other_tables_is_not_believed():
    rows = pa.table({name: [] for name in LIKELIHOODS.names}, schema=LIKELIHOODS)
    many = pa.table({"token_log_likelihoods": [[0.0] * 9999], "unscorable": [None], "windows": [1]}, schema=LIKELIHOODS)
    for table, options, words in (
        (many, pa.ipc.IpcWriteOptions(compression="zstd"), "compressed"),
        (rows.select(["windows"]), None, "another kind"),
    ):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema, options=options) as stream:
            stream.write_table(table)
        with pytest.raises(CageBroken, match=words):
            read_batches(sink.getvalue().to_pybytes(), LIKELIHOODS)


def test_a_configuration_that_wants_more_memory_than_a_look_up_has_is_refused(tmp_path):
    folder = copy_model(tmp_path / "large")
    config = folder / "config.json"
    config.write_text(config.read_text().replace('"model_type"', '"num_labels": 20000000, "model_type"'))
    with open_reader([folder]) as describe, pytest.raises(ModelRefused, match="large"):
        describe(folder, "large", [path.name for path in folder.iterdir()])


@pytest.mark.usefixtures("_unreviewed")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("endless", "longer than the 10 s"),
        ("large", r"cannot be read \(MemoryError\)|of memory, and may take 1.1"),
        ("broken", r"cannot be read \(KeyError\)"),
    ],
)
def test_a_look_up_ends_with_a_refusal_after_ten_seconds_and_beyond_a_gigabyte(name, words):
    with open_cage(CageLimits()):  # the zygote starts before the clock does
        began = time.monotonic()
    with open_reader([HONEST]) as describe, pytest.raises(ModelRefused, match=words):
        describe(HONEST, name, [path.name for path in HONEST.iterdir()])
    assert time.monotonic() - began < LOOK_UP.seconds + stretch(5)
