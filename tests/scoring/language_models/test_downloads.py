"""What is fetched from a hub: resumed where it was cut off, kept below a quota, checked before it is used."""

import os
import time
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from scoring.language_models import HubUnavailable, ModelRefused, downloads, hub_client, resolve_hub
from scoring.language_models.downloads import IN_USE, cache_folder, commit_folder
from scoring.language_models.fetching import fetch_apart
from scoring.language_models.hub import fetch, find_fetched
from scoring.language_models.placing import place
from tests.hostile_hub import respond
from tests.standin_hub import INFORMATION

ID = "org/model"


def find(hub, ref=ID):
    return resolve_hub(ref, endpoint=hub.endpoint)


def fetched(hub, found, **options):
    return fetch(found.location, found.revision, hub.endpoint, None, **options)


def age(folder, seconds):
    moment = time.time() - seconds
    os.utime(folder, (moment, moment))


def test_a_download_that_was_ended_goes_on_where_it_was(hub, gpt2):
    hub.add(ID, gpt2)
    found = find(hub)

    class Ended(Exception):
        pass

    def end(got):
        if got > 10_000:
            raise Ended

    folder = commit_folder(ID, found.revision)
    (folder).mkdir(parents=True)
    content = (gpt2 / "model.safetensors").read_bytes()
    (folder / ".model.safetensors.incomplete").write_bytes(content[:5000])
    with pytest.raises(Ended):
        fetched(hub, found, progress=end)
    assert (folder / ".model.safetensors.incomplete").stat().st_size >= 5000
    assert (fetched(hub, found) / "model.safetensors").read_bytes() == content


def test_what_was_left_of_another_file_is_thrown_away(hub, gpt2):
    hub.add(ID, gpt2)
    found = find(hub)
    folder = commit_folder(ID, found.revision)
    folder.mkdir(parents=True)
    (folder / ".model.safetensors.incomplete").write_bytes(b"something else")
    with pytest.raises(ModelRefused, match="its hash is"):
        fetched(hub, found)
    assert (fetched(hub, found) / "model.safetensors").read_bytes() == (gpt2 / "model.safetensors").read_bytes()


@pytest.mark.slow
def test_what_is_longest_unused_is_evicted_and_what_is_in_use_never(hub, gpt2):
    models = {}
    for name in ("old", "older", "used"):
        hub.add(f"org/{name}", gpt2)
        models[name] = find(hub, f"org/{name}")
        fetched(hub, models[name])
    size = sum(path.stat().st_size for path in commit_folder("org/old", models["old"].revision).iterdir())
    age(commit_folder("org/old", models["old"].revision), IN_USE + 10)
    age(commit_folder("org/older", models["older"].revision), IN_USE + 20)
    hub.add(ID, gpt2)
    fetched(hub, find(hub), quota=3 * size + size // 2)
    kept = {folder.parent.name for folder in cache_folder().glob("*/*")}
    assert kept == {"org--old", "org--used", "org--model"}
    hub.add("org/next", gpt2)
    with pytest.raises(ModelRefused, match="there is room for"):
        fetched(hub, find(hub, "org/next"), quota=size)
    assert commit_folder("org/used", models["used"].revision).is_dir()


def test_the_process_that_fetches_hears_no_interrupt_of_a_terminal(hub, gpt2):
    hub.add(ID, gpt2)
    pin_result = find(hub)
    sessions: set[int] = set()

    def look() -> None:
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        for child in children:
            with suppress(OSError):  # it has ended meanwhile
                if is_fetching(child):
                    sessions.add(os.getsid(int(child)))

    def is_fetching(child: str) -> bool:
        return b"scoring.language_models.fetching" in Path(f"/proc/{child}/cmdline").read_bytes()

    fetch_apart(ID, pin_result.revision, hub.endpoint, None, quota=None, progress=print, check=look, idle_seconds=60)
    assert sessions
    assert os.getsid(0) not in sessions


def test_what_is_looked_up_counts_as_used(hub, gpt2):
    hub.add(ID, gpt2)
    pin_result = find(hub)
    folder = fetched(hub, pin_result)
    age(folder, IN_USE + 10)
    assert find_fetched(ID, pin_result.revision) == folder
    assert time.time() - folder.stat().st_mtime < IN_USE
    assert find_fetched(ID, "0" * 40) is None
    age(folder, IN_USE + 10)
    fetched(hub, pin_result)  # of which everything is there
    assert time.time() - folder.stat().st_mtime < IN_USE


def test_a_file_may_take_the_longer_the_larger_it_is(hub, gpt2, monkeypatch):
    hub.add(ID, gpt2)
    pin_result = find(hub)
    monkeypatch.setattr(downloads, "PATIENCE", 0.0)
    monkeypatch.setattr(downloads, "SLOWEST", 1e12)  # bytes a second
    with pytest.raises(HubUnavailable, match="too slowly"):
        fetched(hub, pin_result)
    monkeypatch.setattr(downloads, "SLOWEST", 1.0)
    assert (fetched(hub, pin_result) / "model.safetensors").is_file()


def test_files_damaged_in_the_cache_are_fetched_again(hub, gpt2):
    hub.add(ID, gpt2)
    found = find(hub)
    weights = fetched(hub, found) / "model.safetensors"
    content = weights.read_bytes()
    weights.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(HubUnavailable, match="damaged"):
        place("hub", ID, found.revision, endpoint=hub.endpoint)
    placed = place("hub", ID, found.revision, endpoint=hub.endpoint)
    assert (placed / "model.safetensors").read_bytes() == content


def test_the_token_goes_to_the_hub_alone(hub, gpt2, monkeypatch):
    hub.add(ID, gpt2)
    sent = []
    monkeypatch.setattr("scoring.language_models.hub_client.build_hf_headers", lambda token: sent.append(token) or {})
    resolve_hub(ID, endpoint=hub.endpoint, token="hf_member")
    assert set(sent) == {"hf_member"}


def test_a_name_that_leads_to_this_machine_once_it_was_checked_is_not_asked(hub, gpt2, monkeypatch):
    hub.add(ID, gpt2)
    port = urlsplit(hub.endpoint).port
    hub.repositories[ID].answers[INFORMATION] = respond(302, Location=f"https://localhost:{port}/")
    monkeypatch.setattr(hub_client, "_is_public", lambda hostname: True)
    with pytest.raises(HubUnavailable, match="not public"):
        resolve_hub(ID, endpoint=hub.endpoint, patience=5.0)
    assert len(hub.requests) == 1


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "10.0.0.1", "169.254.169.254", "100.64.0.1", "0.1.2.3", "224.0.0.1", "::1", "fe80::1%eth0"),
        *("::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "fec0::1", "ff02::1", "fd00::1"),
    ],
)
def test_an_address_that_is_not_public_is_known(address):
    assert not hub_client._is_public_address(address)
    assert hub_client._is_public_address("93.184.216.34")
    assert hub_client._is_public_address("2606:2800:220:1:248:1893:25c8:1946")
