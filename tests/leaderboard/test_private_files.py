"""PLUMBLINE_VAR is for one user, and for one board at a time."""

import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.core.management import CommandError, call_command

from leaderboard.private_files import hold_folder, open_to_others, prepare_folder, restrict_all
from leaderboard.supervision import write_configuration
from scoring.refusals import Refused

pytestmark = pytest.mark.either_database


def mode(path: Path) -> str:
    return oct(stat.S_IMODE(path.stat().st_mode))


@pytest.fixture
def old_folder(tmp_path: Path) -> Path:
    """What a board of an earlier version left, open to everybody."""
    folder = tmp_path / "var"
    (folder / "artefacts").mkdir(parents=True)
    for name in ("plumbline.sqlite3", "artefacts/aa.parquet"):
        (folder / name).write_text("x")
        (folder / name).chmod(0o644)
    for path in (folder, folder / "artefacts"):
        path.chmod(0o755)
    return folder


def test_a_board_of_an_earlier_version_is_closed_to_others(old_folder, tmp_path):
    target = tmp_path / "target"
    target.touch()
    target.chmod(0o644)
    (old_folder / "elsewhere").symlink_to(target)
    assert len(list(open_to_others(old_folder))) == 3
    assert restrict_all(old_folder) == 4
    assert mode(old_folder) == mode(old_folder / "artefacts") == "0o700"
    assert mode(old_folder / "plumbline.sqlite3") == mode(old_folder / "artefacts/aa.parquet") == "0o600"
    assert restrict_all(old_folder) == 0
    assert not list(open_to_others(old_folder))
    assert target.stat().st_mode & 0o044, "what a link leads to is left alone"


@pytest.mark.slow
def test_every_process_of_the_board_writes_for_its_user_alone(old_folder):
    code = "import leaderboard.settings, pathlib; pathlib.Path(leaderboard.settings.VAR, 'new').write_text('x')"
    environment = {**os.environ, "PLUMBLINE_VAR": str(old_folder), "SECRET_KEY": ""}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, umask=0o022)
    assert mode(old_folder) == "0o700"
    assert mode(old_folder / "new") == mode(old_folder / "secret_key") == "0o600"


def test_the_database_artefacts_and_static_files_are_for_the_user_alone():
    name = default_storage.save("sub/mine", ContentFile(b"x"))
    paths = [settings.MEDIA_ROOT / name, settings.STATIC_ROOT / "staticfiles.json", settings.VAR / "supervisord.conf"]
    write_configuration("127.0.0.1", 1)
    assert {mode(path) for path in paths} == {"0o600"}
    assert mode(settings.MEDIA_ROOT / "sub") == "0o700"
    default_storage.delete(name)


def test_supervised_processes_have_the_same_mask():
    assert "umask = 077" in write_configuration("127.0.0.1", 1).read_text()


def test_a_second_board_does_not_start_in_a_folder_in_use(tmp_path):
    nobody = tmp_path / "redis.sock"
    with (
        hold_folder(tmp_path, nobody),
        pytest.raises(Refused, match=rf"{tmp_path}: another board .*process {os.getpid()}.*set PLUMBLINE_VAR"),
        hold_folder(tmp_path, nobody),
    ):
        pass
    with hold_folder(tmp_path, nobody):
        pass  # once the first one has ended it is free


def test_a_board_does_not_start_beside_a_broker_that_another_one_left(tmp_path):
    with socket.socket(socket.AF_UNIX) as broker:
        broker.bind(str(tmp_path / "redis.sock"))
        broker.listen()
        with pytest.raises(Refused, match="a broker that answers"), hold_folder(tmp_path, tmp_path / "redis.sock"):
            pass


def test_the_lock_lasts_as_long_as_the_child_that_holds_it(tmp_path):
    nobody = tmp_path / "redis.sock"
    with hold_folder(tmp_path, nobody) as lock:
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=lock, stderr=subprocess.DEVNULL)
        child.send_signal(19)  # SIGSTOP, so that it reads nothing and lives on
    with pytest.raises(Refused), hold_folder(tmp_path, nobody):
        pass
    child.kill()
    child.wait()
    with hold_folder(tmp_path, nobody):
        pass


def test_up_refuses_a_folder_in_use_with_what_to_do_and_changes_nothing(tmp_path, settings):
    settings.VAR = tmp_path
    settings.EMBEDDED_REDIS_SOCKET = tmp_path / "redis.sock"
    with (
        hold_folder(tmp_path, tmp_path / "redis.sock"),
        pytest.raises(CommandError, match=f"PLUMBLINE_VAR = {tmp_path}: another board runs there"),
    ):
        call_command("up", "--port", "1", skip_checks=True)
    assert [path.name for path in tmp_path.iterdir()] == ["up.lock"]


def test_a_folder_that_is_new_is_made_for_the_user_alone(tmp_path):
    mask = os.umask(0o022)
    try:
        prepare_folder(tmp_path / "a" / "var")
    finally:
        os.umask(mask)
    assert mode(tmp_path / "a" / "var") == "0o700"
