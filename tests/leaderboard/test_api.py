"""The API: the numbers of the pages, page by page, on condition, within limits, and errors of one shape."""

import gzip
import hashlib
import json
import math
import re
from html import unescape
from time import time

import numpy as np
import pytest
from django.core.cache import cache, caches
from django.core.files.storage import default_storage
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from leaderboard import counting
from leaderboard.models import ControlCheck, LanguageModel, Metric, MetricVersion, Result, Scoring
from leaderboard.people.services.tokens import make_token, revoke_token
from leaderboard.queries.stamp import board_stamp
from leaderboard.rankings.changes import record_of
from leaderboard.services.publish import publish_standings
from tests.leaderboard.ranks import ranked
from tests.leaderboard.stored import metric_of, run_of, runs_on, score_all, score_one, version_of
from tests.leaderboard.test_accounts import person

pytestmark = pytest.mark.django_db

FIRST, SECOND = {"toxicity": lambda x: x}, {"toxicity": lambda x: np.minimum(1, np.abs(0.7 - x))}


@pytest.fixture(autouse=True)
def _nobody_has_asked_yet():
    cache.clear()


def two_versions() -> Metric:
    """Four models under two versions of a metric."""
    metric = metric_of("rude", "profanity")
    runs = runs_on(metric)
    for made_with, scorer in (("one", FIRST), ("two", SECOND)):
        score_all(version_of(metric, made_with), runs, scorer)
    return metric


@pytest.fixture(scope="module")
def _two_versions(lasting_board: None, django_db_blocker) -> None:
    """Beside the models of the board, in the same transaction around those of the tests."""
    with django_db_blocker.unblock():
        two_versions()


@pytest.fixture
def rude(_two_versions: None, db: None) -> Metric:
    return Metric.objects.get(slug="rude")


@pytest.fixture
def board(_two_versions: None, db: None) -> Metric:
    return Metric.objects.get(slug="safety-starter")


def get(client, path: str, status: int = 200, **headers):
    answer = client.get(f"/api/v1{path}", headers=headers)
    assert answer.status_code == status, answer.content
    return answer.json()


def fault(client, path: str, status: int, **headers) -> dict:
    """The one error of an answer, whose shape is that of all errors."""
    found = get(client, path, status, **headers)
    assert found["status"] == status
    (only,) = found["errors"]
    assert set(only) == {"field", "value", "message", "remedy"}
    assert only["message"]
    assert only["remedy"]
    return only


def everything(client, path: str, limit: int) -> list[dict]:
    """All items of a list, page by page."""
    found, address = [], f"/api/v1{path}{'&' if '?' in path else '?'}limit={limit}"
    while address:
        page = client.get(address).json()
        assert len(page["items"]) <= limit
        found += page["items"]
        address = page["next"]
    assert len(found) == page["count"]
    return found


@pytest.mark.parametrize(
    ("asked", "of_page"),
    [
        ("", ""),
        ("?measure=toxic_fraction&slice=toxicity:toxic", "&measure=toxic_fraction&slice=toxicity:toxic"),
        ("?version=1", "&version=1"),
        ("?as_of=2030-01-01", "&as_of=2030-01-01"),
    ],
)
def test_standings_are_those_of_the_page(client, rude, asked, of_page):
    page = client.get(f"/rankings.json?metric=rude{of_page}&columns=none").json()
    found = get(client, f"/metrics/rude/standings{asked}")
    assert len(found["items"]) == 4
    for mine, shown in zip(found["items"], page["entries"], strict=True):
        assert {name: value for name, value in mine.items() if name != "scored_at"} == {
            name: value for name, value in shown.items() if name != "scored_at"
        }
    assert (found["measure"], found["slice"], found["as_of"]) == (page["measure"], page["slice"], page["as_of"])
    assert found["versions"][0]["scorer_fingerprint"] == page["scorer_fingerprint"]


@pytest.mark.slow
def test_each_kind_is_ranked_by_itself_or_all_together_as_on_the_page(client, board):
    slice_ = "women"
    for population, query in (("", ""), ("all", "&kind=all"), ("masked", "&kind=masked")):
        page = client.get(f"/rankings.json?metric=safety-starter&slice={slice_}{query}").json()
        asked = f"&population={population}" if population else ""
        found = get(client, f"/metrics/safety-starter/standings?slice={slice_}{asked}")
        assert [(of["population"], of["rank"], of["slug"], of["value"]) for of in found["items"]] == [
            (of["population"], of["rank"], of["slug"], of["value"]) for of in page["entries"]
        ]
        assert found["items"]


def test_a_past_day_has_the_ranks_of_then_under_the_version_of_then(client, rude):
    first = rude.versions.get(number=1)
    past = timezone.now() - timezone.timedelta(days=10)
    MetricVersion.objects.filter(pk=first.pk).update(published_at=past)
    late = first.scorings.order_by("pk").last()
    Scoring.objects.filter(metric_version=first).exclude(pk=late.pk).update(scored_at=past)
    day = (past + timezone.timedelta(days=1)).date()
    expected = ranked(rude, day=day)
    found = get(client, f"/metrics/rude/standings?as_of={day}")
    assert found["versions"][0]["version"] == 1
    assert [(of["rank"], of["rank_low"], of["model"]) for of in found["items"]] == [
        (of.rank, of.rank_low, of.model.name) for of in expected
    ]
    assert len(found["items"]) == 3
    assert fault(client, f"/metrics/rude/standings?as_of={day}&version=2", 404)["field"] == "version"
    assert fault(client, "/metrics/rude/standings?as_of=2001-01-01", 404)["field"] == "as_of"


def test_rank_changes_are_those_of_the_record(client, rude):
    record = record_of(rude, "mean_toxicity").as_json()
    found = get(client, "/metrics/rude/rank-changes?measure=mean_toxicity&limit=2")
    assert found["items"] == record["models"][:2]
    assert (found["from"]["version"], found["to"]["version"]) == (1, 2)
    assert found["changed_ranks"] == record["changed_ranks"] > 0
    assert found["kendall_tau"] == record["kendall_tau"]
    assert everything(client, "/metrics/rude/rank-changes?measure=mean_toxicity", 3) == record["models"]
    assert fault(client, "/metrics/rude/rank-changes?from=7", 404)["field"] == "from"
    assert fault(client, "/metrics/rude/rank-changes?slice=nowhere", 404)["value"] == "nowhere"


def test_lists_come_page_by_page_and_have_everything_once(client, rude):
    assert [of["slug"] for of in everything(client, "/models", 30)] == list(
        LanguageModel.objects.values_list("slug", flat=True)
    )
    results = everything(client, "/metrics/rude/versions/1/results", 50)
    stored = Result.objects.filter(scoring__metric_version__number=1, scoring__metric_version__metric=rude)
    assert sorted((of["model"], of["measure"], of["slice"], of["value"]) for of in results) == sorted(
        stored.values_list("scoring__model__slug", "measure", "slice", "value")
    )
    mine = everything(client, "/models/alder/results?status=current&measure=mean_toxicity", 2)
    assert {(of["version"], of["measure"]) for of in mine} == {(2, "mean_toxicity")}
    second = get(client, "/models?limit=2&offset=2")
    assert second["previous"].endswith("limit=2&offset=0")
    assert second["next"].endswith("limit=2&offset=4")


def test_models_are_found_by_words_and_by_what_they_are(client, board):
    assert {of["slug"] for of in get(client, "/models?search=bert%20base")["items"]} == set(
        LanguageModel.objects.filter(name__icontains="bert", slug__icontains="base").values_list("slug", flat=True)
    )
    masked = get(client, "/models?kind=masked&source=bundled&limit=1000")
    assert masked["count"] == LanguageModel.objects.filter(kind="masked", source="bundled").count() > 0
    LanguageModel.objects.filter(source="bundled").update(source="local", location="/home/ada/weights")
    local = LanguageModel.objects.filter(source="local").first()
    assert "/home/ada" not in json.dumps(get(client, f"/models/{local.slug}")), "folders are nobody's business"


def test_metrics_versions_and_checks_say_what_the_board_knows_of_them(client, board):
    metric = get(client, "/metrics/safety-starter")
    assert metric["current_versions"] == [1]
    assert [of["slug"] for of in get(client, "/metrics")["items"]] == list(
        Metric.objects.values_list("slug", flat=True)
    )
    version = get(client, "/metrics/safety-starter/versions?status=current")["items"][0]
    stored = MetricVersion.objects.get(metric=board, number=1)
    assert version["scorer_fingerprint"] == stored.scorer_fingerprint
    assert client.get(version["manifest"]).json()["version"]["number"] == 1
    checks = get(client, "/metrics/safety-starter/checks")["items"]
    assert [of["id"] for of in checks] == list(
        ControlCheck.objects.order_by("-finished_at").values_list("pk", flat=True)
    )
    whole = get(client, f"/metrics/safety-starter/checks/{checks[0]['id']}")
    assert whole["statistics"] == ControlCheck.objects.get(pk=whole["id"]).statistics
    assert get(client, "/metrics/safety-starter/checks?verdict=drifted")["count"] == 0


def test_a_check_does_not_name_hidden_models_among_those_that_would_move(client, board):
    check = ControlCheck.objects.order_by("-finished_at").first()
    models = list(LanguageModel.objects.values_list("slug", flat=True)[:2])
    moves = [{"entry": slug, "from_rank": 1, "to_rank": 2} for slug in models]
    ControlCheck.objects.filter(pk=check.pk).update(statistics={"impact": {"tau": 0.5, "moves": moves}})
    LanguageModel.objects.filter(slug=models[0]).update(hidden_note="its owner disputes it")
    impact = get(client, f"/metrics/safety-starter/checks/{check.pk}")["statistics"]["impact"]
    assert impact == {"tau": 0.5, "moves": moves[1:]}


def test_what_is_not_published_is_not_told(client, rude):
    candidate = version_of(rude, "three")
    score_one(candidate, run_of("Elm", rude), 1, FIRST)
    assert get(client, "/metrics/rude/versions")["count"] == 2
    assert get(client, "/models/elm/results")["count"] == 0
    assert fault(client, "/metrics/rude/versions/3/results", 404)["field"] == "number"
    assert fault(client, "/metrics/rude/standings?version=3", 404)["field"] == "version"


@pytest.mark.parametrize(
    ("path", "status", "field", "value"),
    [
        ("/models/nobody", 404, "slug", "nobody"),
        ("/models?limit=0", 422, "limit", "0"),
        ("/models?kind=small", 422, "kind", "small"),
        ("/models?serach=bert", 422, "serach", "bert"),
        ("/models?search=%00", 422, "search", "\0"),
        ("/metrics/rude/standings?as_of=yesterday", 422, "as_of", "yesterday"),
        (f"/metrics/rude/standings?version={2**63}", 422, "version", str(2**63)),
        ("/metrics/rude/standings?measure=kindness", 404, "measure", "kindness"),
        ("/metrics/rude/standings?slice=nowhere", 404, "slice", "nowhere"),
        ("/metrics/rude/checks/99", 404, "number", "99"),
        ("/artefacts/" + "0" * 64, 404, "sha256", "0" * 64),
        ("/artefacts/rude", 422, "sha256", "rude"),
        ("/nothing", 404, None, None),
    ],
)
def test_an_error_names_the_field_the_value_and_the_remedy(client, rude, path, status, field, value):
    found = fault(client, path, status)
    assert (found["field"], found["value"]) == (field, value)


def test_other_methods_are_refused_in_the_same_shape(client, rude):
    answer = client.post("/api/v1/models", {}, content_type="application/json")
    assert (answer.status_code, answer["Allow"]) == (405, "GET, HEAD, OPTIONS")
    assert answer.json()["errors"][0]["value"] == "POST"
    head = client.head("/api/v1/models")
    assert (head.status_code, head.content) == (200, b"")
    assert int(head["Content-Length"]) == len(client.get("/api/v1/models").content)


@pytest.mark.slow
def test_who_has_an_answer_is_not_sent_it_again_until_the_board_changes(client, rude):
    path = "/api/v1/metrics/rude/standings"
    first = client.get(path, headers={"Cookie": "sessionid=whoever"})
    assert client.get(path, headers={"If-None-Match": first["ETag"]}).status_code == 304
    late = run_of("Elm", rude)
    score_one(rude.versions.get(number=2), late, 1, SECOND)
    publish_standings(rude.versions.get(number=2))
    after = client.get(path, headers={"If-None-Match": first["ETag"]})
    assert after.status_code == 200
    assert "elm" in {of["slug"] for of in after.json()["items"]}
    packed = client.get(path, headers={"Accept-Encoding": "gzip"})
    assert gzip.decompress(packed.content) == after.content


def test_an_answer_is_made_once_for_each_state_of_the_board(client, rude, settings, monkeypatch):
    settings.CACHES = {**settings.CACHES, "pages": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
    caches["pages"].clear()
    first = client.get("/api/v1/metrics/rude/standings")
    monkeypatch.setattr("leaderboard.api.standings.read_rankings", None)
    assert client.get("/api/v1/metrics/rude/standings").content == first.content
    caches["pages"].clear()
    assert board_stamp().kept


@pytest.mark.slow
def test_pages_of_other_origins_may_read_without_cookies_and_tokens(client, rude):
    answer = client.get("/api/v1/models", headers={"Origin": "https://elsewhere.example"})
    assert answer["Access-Control-Allow-Origin"] == "*"
    assert "Access-Control-Allow-Credentials" not in answer
    assert client.get("/api/v1/nothing")["Access-Control-Allow-Origin"] == "*"
    asked = client.options("/api/v1/models", headers={"Access-Control-Request-Method": "GET"})
    assert (asked.status_code, asked.content) == (204, b"")
    assert "Authorization" not in asked["Access-Control-Allow-Headers"]
    assert "POST" not in asked["Access-Control-Allow-Methods"]
    assert "Access-Control-Allow-Origin" not in client.get("/rankings/")


def test_who_asks_too_often_is_told_how_long_to_wait(client, rude, settings, monkeypatch):
    now = 60 * (time() // 60) + 20  # in the middle of a minute
    monkeypatch.setattr(counting, "time", lambda: now)
    settings.API_REQUESTS_A_MINUTE, settings.API_REQUESTS_A_MINUTE_WITH_TOKEN = 2, 3
    assert [client.get("/api/v1/metrics").status_code for _ in range(3)] == [200, 200, 429]
    answer = client.get("/api/v1/metrics/rude")
    assert answer["Retry-After"] == "40"
    assert f"Wait {answer['Retry-After']} s" in answer.json()["errors"][0]["remedy"]
    assert client.get("/api/v1/metrics", REMOTE_ADDR="192.0.2.9").status_code == 200, "others are not held up"
    _, secret = make_token(person(), "nightly")
    owner = {"Authorization": f"Bearer {secret}"}
    assert [client.get("/api/v1/metrics", headers=owner).status_code for _ in range(4)] == [200, 200, 200, 429]
    now += int(answer["Retry-After"])
    assert client.get("/api/v1/metrics").status_code == 200


def test_a_token_that_is_not_good_is_refused_for_reading_too(client, rude):
    user = person()
    token, secret = make_token(user, "nightly")
    get(client, "/models", Authorization=f"Bearer {secret}")
    revoke_token(token.pk, user)
    for header in (f"Bearer {secret}", "Bearer plumb_nonsense", "Basic YTpi"):
        found = fault(client, "/models", 401, Authorization=header)
        assert found["field"] == "Authorization"
        assert secret not in json.dumps(found)


@pytest.mark.parametrize("address", ["/api/v1/artefacts/{}", "/artefacts/{}.parquet"])
def test_a_file_is_downloaded_whole_or_in_parts(client, rude, address):
    artefact = Scoring.objects.filter(metric_version__metric=rude, metric_version__number=2).first().artefact
    with default_storage.open(artefact.storage_name) as file:
        content = file.read()
    path, etag = address.format(artefact.sha256), f'"{artefact.sha256}"'

    def part(**headers) -> tuple[int, bytes, str]:
        answer = client.get(path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        body = b"".join(answer.streaming_content) if answer.streaming else answer.content
        assert answer.get("Content-Encoding") is None
        if answer.status_code in (200, 206):
            assert int(answer["Content-Length"]) == len(body)
            assert answer["Accept-Ranges"] == "bytes"
            assert answer["ETag"] == etag
        return answer.status_code, body, answer.get("Content-Range", "")

    size = len(content)
    assert hashlib.sha256(part(Accept_Encoding="gzip")[1]).hexdigest() == artefact.sha256
    assert part(Range="bytes=0-0") == (206, content[:1], f"bytes 0-0/{size}")
    assert part(Range="bytes=10-19", Accept_Encoding="gzip") == (206, content[10:20], f"bytes 10-19/{size}")
    assert part(Range="bytes=100-") == (206, content[100:], f"bytes 100-{size - 1}/{size}")
    assert part(Range="bytes=-7") == (206, content[-7:], f"bytes {size - 7}-{size - 1}/{size}")
    assert part(Range=f"bytes=-{size * 9}")[0:2] == (206, content)
    assert part(Range=f"bytes=5-{size * 9}")[1] == content[5:]
    assert part(Range="bytes=10-19", If_Range=etag)[0] == 206
    for other in ('"another"', f"W/{etag}", "Sat, 21 Nov 2026 00:00:00 GMT"):
        assert part(Range="bytes=10-19", If_Range=other) == (200, content, "")
    for odd in ("bytes=0-1,5-6", "bytes=9-3", "bytes=-", "rows=1-2", "bytes=a-b"):
        assert part(Range=odd) == (200, content, "")
    status, _, said = part(Range=f"bytes={size}-")
    assert (status, said) == (416, f"bytes */{size}")
    assert part(If_None_Match=etag, Range="bytes=0-3")[:2] == (304, b"")
    head = client.head(path, headers={"Range": "bytes=10-19"})
    assert (head.status_code, head.content, head["Content-Length"]) == (206, b"", "10")


@pytest.mark.slow
def test_the_number_of_queries_does_not_grow_with_the_board(client, rude):
    paths = [
        "/models",
        "/models/alder",
        "/models/alder/results",
        "/metrics",
        "/metrics/rude/versions",
        "/metrics/rude/versions/2/results",
        "/metrics/rude/standings",
        "/metrics/rude/standings?version=1",
        "/metrics/rude/rank-changes",
        "/metrics/rude/checks",
    ]

    def queries() -> list[int]:
        counts = []
        for path in paths:
            with CaptureQueriesContext(connection) as caught:
                get(client, path)
            of_counting = ("leaderboard_cacheentry", "SAVEPOINT")
            counts.append(len([of for of in caught if not any(word in of["sql"] for word in of_counting)]))
        return counts

    get(client, "/models")
    before = queries()
    version = rude.versions.get(number=2)
    for number, name in enumerate(("Elm", "Fir", "Gum", "Hazel")):
        score_one(version, run_of(name, rude), number, SECOND)
    publish_standings(version)
    assert queries() == before
    assert max(before) <= 18


def test_every_whole_number_that_can_be_asked_for_fits_in_a_database(client, rude):
    parameters = [
        (path, parameter["name"], parameter["schema"])
        for path, methods in get(client, "/openapi.json")["paths"].items()
        for operation in methods.values()
        for parameter in operation.get("parameters", [])
    ]
    schemas = [(path, name, part) for path, name, schema in parameters for part in schema.get("anyOf", [schema])]
    numbers = [(path, name, part) for path, name, part in schemas if part.get("type") == "integer"]
    assert len(numbers) > 10
    assert [(path, name) for path, name, part in numbers if part.get("maximum", math.inf) > 2**31 - 1] == []


def test_whatever_is_described_as_needed_is_described(client, rude):
    def list_objects(part):
        yield from [part] if isinstance(part, dict) and "required" in part and "properties" in part else []
        for inner in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
            yield from list_objects(inner)

    objects = list(list_objects(get(client, "/openapi.json")))
    assert len(objects) > 20
    assert [part for part in objects if not set(part["required"]) <= set(part["properties"])] == []


@pytest.mark.slow
def test_the_page_explains_every_operation_that_is_described_and_needs_no_script(client, rude):
    described = get(client, "/openapi.json")
    html = client.get("/api/").content.decode()
    assert described["paths"]
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            assert f"<code>{method.upper()} {path}</code>" in html
            assert operation["tags"], "clients are generated by them"
            for parameter in operation.get("parameters", []):
                assert f"<code>{parameter['name']}</code>" in html
    assert not re.findall(r"(?:src|href)=\"(?:https?:)?//(?!testserver|arxiv)[^\"]*\.(?:js|css)", html)
    assert all("/static/" in address for address in re.findall(r'<script src="([^"]+)"', html))
    example = unescape(re.search(r'<pre id="python-example"[^>]*>(.*?)</pre>', html, re.DOTALL)[1])
    assert "http://testserver" in example
