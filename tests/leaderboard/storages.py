"""The storages that the same tests run on: a folder, and a bucket of the server that tests/object_store.py starts."""

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from botocore.loaders import JSONFileLoader
from django.core.files.storage import storages

from leaderboard.services.artefacts import mark_storage
from leaderboard.storage import BoardStorage, board_storage, marks
from leaderboard.storage.addresses import read_both, read_storage_address
from tests.object_store import KEY_ID, SECRET, ObjectStore, run_object_store


@pytest.fixture(scope="session")
def object_store() -> Iterator[ObjectStore]:
    """An S3 server. Clients of it read the descriptions of AWS once, which each storage of a test would read anew."""
    with run_object_store() as store, pytest.MonkeyPatch.context() as patch:
        patch.setattr(JSONFileLoader, "load_file", staticmethod(cache(JSONFileLoader().load_file)))
        yield store


@pytest.fixture
def bucket_address(object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> str:
    """The STORAGE_URL of a new bucket, whose credentials the environment has."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY_ID)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    return f"s3://{object_store.make_bucket()}/board/files?endpoint={object_store.endpoint}&region=us-east-1"


@pytest.fixture
def use_host(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Go on as a process of the host of that name, which remembers what its other processes noted."""

    def use(name: str) -> None:
        settings.VAR = tmp_path / name
        settings.VAR.mkdir(exist_ok=True)
        monkeypatch.setattr(marks, "_checked", {})

    return use


@pytest.fixture
def use_storage(settings: Any) -> Callable[..., BoardStorage]:
    """Use the storage that an address names, and behind it another one."""

    def use(address: str, also: str = "") -> BoardStorage:
        entry = read_storage_address(address)
        if also:
            entry = read_both(entry, read_storage_address(also))
        settings.STORAGES = settings.STORAGES | {"default": entry}
        assert storages["default"] is board_storage()
        return board_storage()

    return use


@pytest.fixture(params=["folder", "bucket"])
def storage(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    use_host: Callable[[str], None],
    use_storage: Callable[..., BoardStorage],
) -> BoardStorage:
    """An empty, marked storage of each kind in turn, as the host `first` sees it."""
    use_host("first")
    in_folder = request.param == "folder"
    address = f"file://{tmp_path}/files" if in_folder else request.getfixturevalue("bucket_address")
    board = use_storage(address)
    mark_storage()
    return board
