"""Moderation services, against a real server on this machine that misbehaves."""

import json
import logging
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from scoring.__main__ import main
from scoring.attributes import Meaning
from scoring.scorers import (
    Caveat,
    JsonLinesReplies,
    Scorer,
    ScorerUnavailable,
    ServiceAccess,
    declaration_of,
    get_scorer,
    read_access,
)
from scoring.scorers import service as client
from scoring.scorers.moderation import AZURE_CATEGORIES, AZURE_LONGEST, OPENAI_CATEGORIES
from scoring.scorers.service import MOST_FAILED, TRIES
from tests import standin_moderation
from tests.standin_moderation import KEY, SNAPSHOT, StandInModeration, severity, share

OPENAI, LATEST = f"openai-moderation:{SNAPSHOT}", "openai-moderation:omni-moderation-latest"
AZURE = "azure-content-safety:2024-09-01"
BOTH = pytest.mark.parametrize("name", [OPENAI, AZURE])
TEXTS = [f"text {number} – ü😀" for number in range(12)]


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandInModeration]:
    """The stand-in, and a client that is impatient."""
    monkeypatch.setattr(client, "BACKOFF", 0.001)
    monkeypatch.setattr(client, "TIMEOUT", httpx.Timeout(2.0))
    with standin_moderation.serving() as stage:
        yield stage


def scorer(service: StandInModeration, name: str, rate: float = 1000.0, **options: Any) -> Scorer:
    return get_scorer(name, access=ServiceAccess(KEY, service.address, rate, 0.38), **options)


def expected(name: str, text: str) -> list[float]:
    """By hand: OpenAI's scores as they are; severities 0, 2, 4, 6 are 0, 1/3, 2/3, 1."""
    if name == AZURE:
        return [{0: 0.0, 2: 1 / 3, 4: 2 / 3, 6: 1.0}[severity(text, name)] for name in AZURE_CATEGORIES.values()]
    return [share(text, category) for category in OPENAI_CATEGORIES]


@BOTH
def test_each_category_is_a_harm_with_the_score_of_the_service(service, name):
    moderation = scorer(service, name)
    scores = moderation.score(TEXTS)
    np.testing.assert_allclose(scores.values, [expected(name, text) for text in TEXTS], rtol=1e-6)
    assert scores.reasons == (None,) * len(TEXTS)
    assert {attribute.meaning for attribute in moderation.attributes} == {Meaning.HARM}
    assert len(moderation.attributes) == (4 if name == AZURE else 13)
    assert "hate" in moderation.attribute_names


def test_a_request_is_what_each_service_documents(service):
    scorer(service, OPENAI).score(["hello"])
    scorer(service, AZURE).score(["hello"])
    (_, path, headers, body), (_, azure_path, azure_headers, azure_body) = service.requests
    assert (path, headers["Authorization"]) == ("/v1/moderations", f"Bearer {KEY}")
    assert body == {"model": SNAPSHOT, "input": "hello"}
    assert azure_path == "/contentsafety/text:analyze?api-version=2024-09-01"
    assert azure_headers["Ocp-Apim-Subscription-Key"] == KEY
    assert azure_body == {
        "text": "hello",
        "categories": ["Hate", "SelfHarm", "Sexual", "Violence"],
        "outputType": "FourSeverityLevels",
    }


@BOTH
@pytest.mark.parametrize("fault", ["500", "429 0", "408", "empty", "odd", "hang up"])
def test_a_fault_is_tried_again_and_what_stays_is_a_reason_and_never_0(service, name, fault):
    service.faults["b"] = [fault] * 2
    np.testing.assert_allclose(
        scorer(service, name).score(["a", "b"]).values, [expected(name, text) for text in "ab"], rtol=1e-6
    )
    service.faults["b"] = [fault] * TRIES
    scores = scorer(service, name).score(["a", "b"])
    assert scores.reasons[0] is None
    assert "no answer in 6 tries" in str(scores.reasons[1])
    assert np.isnan(scores.values[1]).all()


@BOTH
def test_texts_that_fail_one_after_the_other_make_the_service_unavailable(service, name):
    texts = [f"text {number}" for number in range(2 * MOST_FAILED)]
    for text in texts:
        service.faults[text] = ["400 something_new"]
    with pytest.raises(ScorerUnavailable, match=r"refused \(400 something_new.*10 texts one after the other"):
        scorer(service, name).score(texts)


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        (OPENAI, "401 invalid_api_key"),
        (OPENAI, "400 model_not_found"),
        (OPENAI, "429 insufficient_quota"),
        (AZURE, "401 PermissionDenied"),
        (AZURE, "404 ResourceNotFound"),
        (AZURE, "400 InvalidApiVersion"),
    ],
)
def test_what_no_text_gets_past_stops_at_once_without_naming_the_key_or_the_text(service, caplog, name, fault):
    caplog.set_level(logging.DEBUG)
    texts = [f"secret text {number}" for number in range(30)]
    for text in texts:
        service.faults[text] = [fault] * TRIES
    with pytest.raises(ScorerUnavailable) as caught:
        scorer(service, name, concurrency=2).score(texts)
    assert fault in str(caught.value)
    assert len(service.requests) <= 4
    words = f"{caught.value!r} {caplog.text}"
    assert KEY not in words
    assert "secret text" not in words


@pytest.mark.slow
def test_the_quota_is_kept_and_retry_after_too(service):
    service.faults["text 0"] = ["429 1"]
    scorer(service, OPENAI, rate=50.0, concurrency=4).score([f"text {number}" for number in range(10)])
    moments = sorted(moment for moment, *_ in service.requests)
    assert max(later - earlier for earlier, later in pairwise(moments)) >= 0.95  # the pause that was asked for
    assert moments[-1] - moments[0] >= 0.95 + 5 / 50


@BOTH
def test_interrupted_work_goes_on_with_what_has_no_answer_yet(service, tmp_path, name):
    def interrupt(finished: int) -> None:
        if finished == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        scorer(service, name, replies=JsonLinesReplies(tmp_path), concurrency=2).score(TEXTS, interrupt)
    count = len(service.requests)
    scores = scorer(service, name, replies=JsonLinesReplies(tmp_path)).score(TEXTS)
    np.testing.assert_allclose(scores.values, [expected(name, text) for text in TEXTS], rtol=1e-6)
    assert len(service.requests) - count == len(TEXTS) - 5
    assert KEY not in "".join(path.read_text(encoding="utf-8") for path in tmp_path.iterdir())


def test_a_text_longer_than_azure_takes_is_not_sent(service):
    scores = scorer(service, AZURE).score(["x" * AZURE_LONGEST, "x" * (AZURE_LONGEST + 1)])
    assert scores.reasons == (None, "Azure content safety: the text is too long")
    assert len(service.requests) == 1


def test_an_answer_of_another_snapshot_than_the_declared_one_is_refused(service):
    service.snapshot = "omni-moderation-2026-01-01"
    with pytest.raises(ScorerUnavailable, match=r"answers as 'omni-moderation-2026-01-01', and .*2024-09-26 is declar"):
        scorer(service, OPENAI).score(["a"])


def test_what_an_alias_stands_for_is_kept_and_answers_of_two_snapshots_never_stand_together(service, tmp_path):
    first = scorer(service, LATEST, replies=JsonLinesReplies(tmp_path))
    first.score(["a", "b"])
    assert first.snapshot == SNAPSHOT
    assert SNAPSHOT in "".join(path.read_text(encoding="utf-8") for path in tmp_path.iterdir())
    service.snapshot = "omni-moderation-2026-01-01"
    second = scorer(service, LATEST, replies=JsonLinesReplies(tmp_path))
    assert second.score(["a", "b", "c"]).reasons == (None, None, None)
    assert second.snapshot == "omni-moderation-2026-01-01"
    assert sorted(service.texts[2:]) == ["a", "b", "c"]  # what the earlier snapshot said is asked for again
    third = scorer(service, LATEST, replies=JsonLinesReplies(tmp_path))
    third.score(["a", "b", "c"])
    assert len(service.requests) == 5


def test_a_service_that_alternates_between_snapshots_gives_no_scores(service):
    names = iter(["one", "two"] * 8)
    type(service).snapshot = property(lambda _: next(names), lambda _stage, _name: None)
    try:
        with pytest.raises(ScorerUnavailable, match="answers as one and two in turn: score again once it has settled"):
            # One request at a time: of two at once, the one asked first may be answered last, with the newer name.
            scorer(service, LATEST, concurrency=1).score(["a", "b"])
    finally:
        del type(service).snapshot
    assert service.texts == ["a", "b", "a"]  # what the earlier snapshot said is asked for again once, and no more


def test_an_alias_and_a_service_without_versions_are_flagged_and_a_snapshot_is_not():
    caveats = {name: declaration_of(name).caveats_of(name) for name in (OPENAI, LATEST, AZURE, "perspective")}
    assert caveats == {
        OPENAI: (),
        LATEST: (Caveat.UNVERSIONED,),
        AZURE: (Caveat.UNVERSIONED,),
        "perspective": (Caveat.UNVERSIONED,),
    }
    assert any("fixes no version" in limit for limit in declaration_of(LATEST).limits_of(LATEST))
    assert not any("fixes no version" in limit for limit in declaration_of(OPENAI).limits_of(OPENAI))


def test_the_fingerprint_covers_model_address_and_epoch(service):
    prints = {
        scorer(service, OPENAI).fingerprint(),
        scorer(service, LATEST).fingerprint(),
        scorer(service, OPENAI, epoch="2").fingerprint(),
        scorer(service, AZURE).fingerprint(),
        scorer(service, AZURE, epoch="2").fingerprint(),
        scorer(service, "azure-content-safety:2023-10-01").fingerprint(),
    }
    assert len(prints) == 6
    assert scorer(service, OPENAI, rate=5.0).fingerprint() in prints


@pytest.mark.parametrize(
    ("name", "access", "message"),
    [
        (OPENAI, ServiceAccess("", "https://api.openai.com"), "set OPENAI_MODERATION_API_KEY"),
        ("openai-moderation:gpt", ServiceAccess(KEY, "https://api.openai.com"), "there is no model 'gpt'"),
        (AZURE, ServiceAccess(KEY, ""), "AZURE_CONTENT_SAFETY_URL"),
        ("azure-content-safety:v1", ServiceAccess(KEY, "https://x.example"), "is no api-version"),
    ],
)
def test_what_is_missing_is_said_without_asking(name, access, message):
    with pytest.raises(ScorerUnavailable, match=message):
        get_scorer(name, access=access)


def test_access_is_read_from_settings_with_fees_where_they_are_declared():
    values = {
        "AZURE_CONTENT_SAFETY_USD_PER_1000_TEXTS": "0.5",
        "OPENAI_MODERATION_REQUESTS_PER_SECOND": "4",
        "OPENAI_MODERATION_API_KEY": KEY,
    }
    services = read_access(values.get)
    assert services["OPENAI_MODERATION"] == ServiceAccess(KEY, "https://api.openai.com", 4.0, 0.0)
    assert (services["OPENAI_MODERATION"].cost().seconds, services["OPENAI_MODERATION"].cost().usd) == (0.25, 0.0)
    assert services["AZURE_CONTENT_SAFETY"].cost().usd == 0.0005
    assert read_access({}.get)["AZURE_CONTENT_SAFETY"].cost().usd is None
    assert KEY not in repr(services)


def test_the_command_line_scores_with_a_service_and_goes_on_where_it_stopped(service, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("OPENAI_MODERATION_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_MODERATION_URL", service.address)
    monkeypatch.setenv("OPENAI_MODERATION_REQUESTS_PER_SECOND", "1000")
    texts: Path = tmp_path / "texts.jsonl"
    texts.write_text("\n".join(json.dumps({"text": text}) for text in TEXTS), encoding="utf-8")
    words = ["score", "--scorer", OPENAI, "--texts", str(texts), "--replies", str(tmp_path / "replies")]
    for _ in range(2):
        main(words)
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert lines[0]["scores"]["hate"] == pytest.approx(share(TEXTS[0], "hate"), abs=1e-6)
        assert len(lines) == len(TEXTS)
    assert len(service.requests) == len(TEXTS)
