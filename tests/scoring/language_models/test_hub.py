"""Models on a hub: pinned to a commit, fetched at it, and refused with a remedy."""

import json
import re
import socket
import time

import pytest
import torch

import scoring.language_models.hub as hub_module
from scoring.language_models import HubUnavailable, ModelRefused, hub_client, load, resolve
from scoring.language_models.resolving import describe_here
from tests.scoring.language_models import tiny
from tests.standin_hub import OUTSIDER, TOKEN

ID = "org/model"


def find(hub, ref=ID, **options):
    return resolve(ref, endpoint=hub.endpoint, **options)


def fetch(hub, found, **options):
    return load("hub", found.location, found.revision, endpoint=hub.endpoint, device=torch.device("cpu"), **options)


def first_weights(loaded):
    return next(loaded.model.parameters())


@pytest.mark.slow
def test_a_branch_is_pinned_to_its_commit(hub, gpt2):
    commit = hub.add(ID, gpt2, revisions=["main", "v1.0", "refs/pr/3"])
    for revision in (None, "", "main", "v1.0", "refs/pr/3", commit):
        found = find(hub, revision=revision)
        assert (found.source, found.location, found.revision) == ("hub", ID, commit)
    assert re.fullmatch("[0-9a-f]{40}", commit)


def test_an_id_without_organisation_is_found(hub, gpt2):
    commit = hub.add("gpt2", gpt2)
    assert find(hub, "gpt2").revision == commit


def test_what_is_resolved_is_described_as_from_the_folder(hub, gpt2):
    hub.add(ID, gpt2)
    found, local = find(hub), resolve(str(gpt2))
    assert (found.architecture, found.licence) == (local.architecture, local.licence)


def test_a_model_is_described_by_whom_the_caller_names(hub, gpt2):
    hub.add(ID, gpt2)
    names = []

    def describe(path, name, files):
        names.append(name)
        return describe_here(path, name, files)._replace(weight_format="a format of its own")

    models = find(hub, describe=describe), resolve(str(gpt2), describe=describe)
    assert tuple(model.weight_format for model in models) == ("a format of its own",) * 2
    assert names == [ID, str(gpt2)]


def test_only_the_configuration_is_fetched_to_resolve_and_at_the_pinned_commit(hub, gpt2):
    commit = hub.add(ID, gpt2)
    find(hub, revision="main")
    # At the commit, not the branch: that may move between the two requests.
    fetched = {line.partition(" ")[2] for line in hub.requests if "/resolve/" in line}
    assert fetched == {f"/{ID}/resolve/{commit}/{name}" for name in ("config.json", "tokenizer_config.json")}


def test_a_hub_model_loads_with_the_weights_that_were_uploaded(hub, gpt2):
    hub.add(ID, gpt2)
    local = resolve(str(gpt2))
    expected = load("folder", local.location, local.revision, device=torch.device("cpu"))
    loaded = fetch(hub, find(hub))
    assert torch.equal(first_weights(loaded), first_weights(expected))
    assert loaded.tokenizer("the river")["input_ids"] == expected.tokenizer("the river")["input_ids"]


@pytest.mark.slow
def test_the_pinned_commit_is_loaded_after_the_branch_has_moved(hub, gpt2):
    hub.add(ID, gpt2)
    pinned = find(hub)
    tiny.save("gpt2", gpt2, seed=1)
    hub.add(ID, gpt2)
    moved = find(hub)
    assert moved.revision != pinned.revision
    assert not torch.equal(first_weights(fetch(hub, pinned)), first_weights(fetch(hub, moved)))


def test_loading_a_branch_instead_of_a_commit_is_refused(hub, gpt2):
    hub.add(ID, gpt2)
    with pytest.raises(ModelRefused, match="'main' is no commit"):
        load("hub", ID, "main", endpoint=hub.endpoint)


def test_nothing_but_weights_configuration_and_tokenizer_is_fetched(hub, gpt2):
    for name in ("pytorch_model.bin", "own.py", "model.pt", "checkpoint-1/model.safetensors", "onnx/config.json"):
        (gpt2 / name).parent.mkdir(exist_ok=True)
        (gpt2 / name).write_bytes(b"x")
    hub.add(ID, gpt2)
    fetch(hub, find(hub))
    fetched = {re.sub(".*/resolve/[^/]+/", "", line) for line in hub.requests if "/resolve/" in line}
    assert "model.safetensors" in fetched
    assert {name for name in fetched if "/" in name or not name.endswith((".json", ".safetensors"))} == set()


def test_a_fetched_model_loads_while_the_hub_is_away(hub, gpt2):
    hub.add(ID, gpt2)
    found = find(hub)
    fetch(hub, found)
    hub.stop()
    assert fetch(hub, found).architecture == found.architecture


def test_a_repository_that_is_missing_is_refused(hub):
    with pytest.raises(ModelRefused, match=r"org/model is not on http.*private.*HF_TOKEN"):
        find(hub)


def test_a_private_repository_looks_like_a_missing_one(hub, gpt2):
    hub.add(ID, gpt2, private=True)
    for token in (None, OUTSIDER):
        with pytest.raises(ModelRefused, match=r"is not on http.*private.*HF_TOKEN"):
            find(hub, token=token)


def test_a_private_repository_is_found_and_fetched_with_a_token(hub, gpt2):
    commit = hub.add(ID, gpt2, private=True)
    found = find(hub, token=TOKEN)
    assert found.revision == commit
    assert fetch(hub, found, token=TOKEN).architecture == found.architecture


def test_a_gated_repository_is_refused_with_the_way_to_gain_access(hub, gpt2):
    hub.add(ID, gpt2, gated=True)
    for token in (None, OUTSIDER):
        with pytest.raises(ModelRefused, match=r"gated: request access on its page.*HF_TOKEN"):
            find(hub, token=token)
    assert find(hub, token=TOKEN).location == ID


def test_a_repository_gated_after_it_was_pinned_is_refused(hub, gpt2):
    hub.add(ID, gpt2)
    found = find(hub)
    hub.repositories[ID].gated = True
    with pytest.raises(ModelRefused, match="gated"):
        fetch(hub, found)


def test_a_repository_removed_after_it_was_pinned_is_refused(hub, gpt2):
    hub.add(ID, gpt2)
    found = find(hub)
    del hub.repositories[ID]
    with pytest.raises(ModelRefused, match=r"org/model is not on http"):
        fetch(hub, found)


def test_a_token_that_is_not_valid_is_refused(hub, gpt2):
    hub.add(ID, gpt2)
    with pytest.raises(ModelRefused, match="does not accept the token"):
        find(hub, token="hf_wrong")


def test_the_token_of_the_machines_user_is_not_used(hub, gpt2, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    hub.add(ID, gpt2, private=True)
    with pytest.raises(ModelRefused, match="private"):
        find(hub)


@pytest.mark.parametrize("revision", ["no-such-branch", "f" * 40, "../main"])
def test_a_revision_that_is_missing_is_refused(hub, gpt2, revision):
    hub.add(ID, gpt2)
    with pytest.raises(ModelRefused, match=f"no revision '{revision}'"):
        find(hub, revision=revision)


def test_a_repository_without_configuration_is_refused(hub, gpt2):
    (gpt2 / "config.json").unlink()
    hub.add(ID, gpt2)
    with pytest.raises(ModelRefused, match=r"no config\.json"):
        find(hub)


def test_pickled_weights_are_refused(hub, gpt2):
    (gpt2 / "model.safetensors").rename(gpt2 / "pytorch_model.bin")
    hub.add(ID, gpt2)
    with pytest.raises(ModelRefused, match=r"pytorch_model.bin, and pickled weights can run code: convert"):
        find(hub)


def test_a_hub_tokenizer_that_needs_code_of_its_own_is_refused(hub, gpt2):
    path = gpt2 / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "auto_map": {"AutoTokenizer": ["own.Own", None]}}))
    hub.add(ID, gpt2)
    with pytest.raises(ModelRefused, match=r"auto_map in tokenizer_config\.json"):
        find(hub)


def test_safetensors_in_a_checkpoint_folder_are_not_the_models_weights(hub, gpt2):
    (gpt2 / "checkpoint-1").mkdir()
    (gpt2 / "model.safetensors").rename(gpt2 / "checkpoint-1" / "model.safetensors")
    hub.add(ID, gpt2)
    with pytest.raises(ModelRefused, match="no weights"):
        find(hub)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"auto_map": {"AutoModelForCausalLM": "modeling.Model"}}, "code of its own"),
        ({"architectures": ["GPT2ForSequenceClassification"]}, "not a language model"),
        ({"model_type": "of-my-own"}, "architecture that transformers knows"),
    ],
)
def test_an_unsupported_architecture_is_refused(hub, gpt2, changes, reason):
    config = json.loads((gpt2 / "config.json").read_text())
    (gpt2 / "config.json").write_text(json.dumps({**config, **changes}))
    hub.add(ID, gpt2)
    with pytest.raises(ModelRefused, match=reason):
        find(hub)


def test_a_hub_that_is_away_is_a_passing_fault(hub):
    hub.stop()
    with pytest.raises(HubUnavailable, match="did not answer"):
        find(hub)


@pytest.mark.parametrize("status", [500, 503, 429])
def test_a_hub_that_fails_is_a_passing_fault(hub, gpt2, status):
    hub.add(ID, gpt2)
    hub.status = status
    with pytest.raises(HubUnavailable, match="did not answer"):
        find(hub)


def test_a_slow_hub_is_a_passing_fault(hub, gpt2, monkeypatch):
    monkeypatch.setattr(hub_module, "HUB_TIMEOUT", 0.1)
    hub.add(ID, gpt2)
    hub.delay = 0.5
    with pytest.raises(HubUnavailable, match="did not answer"):
        find(hub)


def test_a_hub_whose_answers_are_too_long_is_a_passing_fault(hub, gpt2, monkeypatch):
    monkeypatch.setattr(hub_client, "MOST_METADATA_BYTES", 100)
    hub.add(ID, gpt2)
    with pytest.raises(HubUnavailable, match="answers with more than 100 bytes of metadata"):
        find(hub)


def test_a_hub_without_a_name_is_a_passing_fault(gpt2, monkeypatch):
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: (_ for _ in ()).throw(socket.gaierror("no such host")))
    with pytest.raises(HubUnavailable, match="did not answer"):
        resolve(ID, endpoint="http://hub.invalid")


def test_a_hub_that_goes_away_before_the_weights_are_fetched_is_a_passing_fault(hub, gpt2, monkeypatch):
    monkeypatch.setattr(time, "sleep", lambda _: None)  # between the client's own attempts
    hub.add(ID, gpt2)
    found = find(hub)  # which leaves config.json in the cache
    hub.stop()
    with pytest.raises(HubUnavailable, match="did not"):
        fetch(hub, found)
