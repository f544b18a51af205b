"""Every repository of the hostile hub is refused in words and in time; none is loaded, none takes the machine along."""

import time

import pytest

from scoring.language_models import BUNDLED, HubUnavailable, ModelRefused, load_files, place, resolve, resolve_hub
from scoring.likelihood import LikelihoodSettings, Unscorable, token_log_likelihoods
from tests.hostile_hub import CASES, GGUF, GROUPS, LOADING, LOOK_UP, RUNNING
from tests.limits import measure_slowness

GOOD = BUNDLED / "plumb-gpt2-l2-h128"
ID = "someone/model"
SECONDS = 5.0  # for any refusal, reading included
# What the submission's form says in its own words, or decides by the board's limits.
BY_FORM = {"cannot be asked now", "more than they can have"}


@pytest.mark.slow_cases
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_hostile_repository_is_refused_in_words_and_in_time(hub, tmp_path, case):
    case.upload(hub, ID, GOOD, tmp_path)
    began, slowness = time.monotonic(), measure_slowness(time.perf_counter)
    patience = 1.0 * slowness
    if case.stage == RUNNING:
        found = resolve_hub(ID, endpoint=hub.endpoint)
        loaded = load_files(place("hub", ID, found.revision, endpoint=hub.endpoint), ID)
        (read,) = token_log_likelihoods(loaded, ["The river rises in the mountains."], LikelihoodSettings())
        assert read.unscorable == Unscorable.NOT_FINITE
        return
    if case.stage == LOADING or case.words == "more than they can have":
        candidate = resolve_hub(ID, endpoint=hub.endpoint, patience=patience)
        if case.stage == LOOK_UP:
            assert candidate.weights > 1.1 * 4 * candidate.architecture.stored + 2**20
            return
        with pytest.raises(ModelRefused) as refused:
            load_files(place("hub", candidate.location, candidate.revision, endpoint=hub.endpoint), ID)
    else:
        with pytest.raises((ModelRefused, HubUnavailable)) as refused:
            resolve_hub(ID, endpoint=hub.endpoint, patience=patience)
        assert isinstance(refused.value, HubUnavailable) == (case.words in BY_FORM)
    assert time.monotonic() - began < 10 * SECONDS * slowness
    if case.words not in BY_FORM:
        assert case.words in str(refused.value)


@pytest.mark.parametrize(("words", "content"), GGUF.values(), ids=GGUF)
def test_a_hostile_gguf_file_is_refused_by_its_header(tmp_path, words, content):
    (tmp_path / "model.gguf").write_bytes(content)
    with pytest.raises(ModelRefused, match="cannot be read as the GGUF") as refused:
        resolve(str(tmp_path / "model.gguf"))
    assert words in str(refused.value)


def test_the_hub_holds_as_many_attacks_as_it_should():
    assert len(CASES) + len(GGUF) >= 70
    least = {"answers": 12, "configurations": 25, "tokenizers": 10, "headers": 12, "weights": 8}
    assert {name: len(GROUPS[name]) >= number for name, number in least.items()} == dict.fromkeys(least, True)
    assert len(GGUF) >= 9
