"""What pages of one state of the board share is read once, and no longer than that state lasts."""

import re

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from leaderboard.models import Metric
from leaderboard.rankings.versions import metrics_with_versions
from leaderboard.services.audit import record
from leaderboard.state_memo import SECONDS, StateMemo, large_answers, once_a_state, share_reading, small_answers

HISTORY, DEMOGRAPHICS = "/history/?metric=safety-starter", "/demographics/?metric=safety-starter"
RANKINGS = "/rankings/?metric=safety-starter"


@pytest.fixture
def sharing(monkeypatch):
    """Memory of the board's state, as web processes have it, and nothing in it."""
    memos = small_answers, large_answers
    for memo in memos:
        monkeypatch.setattr(memo, "most", 64)
        memo.keep("no state", "no key", ())
    yield
    for memo in memos:
        memo.keep("no state", "no key", ())


def queries_of(client, path):
    """The queries of a page that is made anew: tests keep none."""
    with CaptureQueriesContext(connection) as queries:
        assert client.get(path).status_code == 200
    return [query["sql"] for query in queries.captured_queries]


def asks_for_metrics(queries):
    return any('FROM "leaderboard_metric"' in query for query in queries)


@pytest.mark.django_db
@pytest.mark.usefixtures("lasting_board", "sharing")
class TestPages:
    def test_the_next_page_of_the_same_state_asks_for_no_metrics_again(self, client, board):
        assert asks_for_metrics(queries_of(client, HISTORY))
        assert not asks_for_metrics(queries_of(client, DEMOGRAPHICS))

    def test_entries_are_counted_once_whatever_the_order_and_again_for_other_filters(self, client, board):
        def counts_entries(parameters):
            return any(
                "GROUP BY" in query and '"entries"' in query for query in queries_of(client, RANKINGS + parameters)
            )

        counted = [counts_entries(parameters) for parameters in ("", "&sort=model", "&family=GPT-2", "&sort=-value")]
        assert counted == [True, False, True, False]

    def test_a_page_says_the_same_whether_it_asked_or_not(self, client, board):
        first, second = (client.get(HISTORY) for _ in range(2))
        nonces = [re.search(r'nonce="([^"]+)"', page.content.decode()).group(1).encode() for page in (first, second)]
        assert first.content == second.content.replace(*nonces[::-1])

    def test_a_change_of_the_board_is_on_the_next_page(self, client, board):
        client.get(HISTORY)
        Metric.objects.filter(pk=board.pk).update(title="Safety by another name")
        assert "Safety by another name" not in client.get(DEMOGRAPHICS).content.decode()
        record("restrict model", "model x", {"reason": "whatever is said of the board changes its state"})
        assert "Safety by another name" in client.get(DEMOGRAPHICS).content.decode()

    def test_who_is_signed_in_reads_the_board_as_it_is_now(self, client, board):
        client.get(HISTORY)
        Metric.objects.filter(pk=board.pk).update(title="Safety by another name")
        client.force_login(User.objects.create(username="ada"))
        assert "Safety by another name" in client.get(HISTORY).content.decode()

    def test_nothing_outside_of_pages_is_remembered(self, board):
        before = {metric.slug for metric in metrics_with_versions()}
        Metric.objects.filter(pk=board.pk).update(slug="another")
        assert {metric.slug for metric in metrics_with_versions()} == before - {board.slug} | {"another"}


def test_an_answer_is_remembered_for_each_key_of_one_state(sharing):
    calls = []

    @once_a_state(lambda key: key)
    def answer(key):
        calls.append(key)

    for state in ("one", "one", "two", "one"):
        with share_reading(state):
            answer("a"), answer("b"), answer("a")
    assert calls == ["a", "b"] * 3


def test_what_is_remembered_is_read_again_after_some_minutes(sharing, monkeypatch):
    calls = []
    answer = once_a_state()(lambda: calls.append("the board"))
    for passed in (0, 1, SECONDS):
        monkeypatch.setattr("leaderboard.state_memo.monotonic", lambda passed=passed: 10.0 * SECONDS + passed)
        with share_reading("one"):
            answer()
    assert len(calls) == 2


def test_what_nobody_read_for_longest_goes_first():
    small = StateMemo(2)
    for key in ("a", "b"):
        small.keep("state", key, key)
    small.read("state", "a")
    small.keep("state", "c", "c")
    assert [small.read("state", key) for key in ("a", "b", "c")] == ["a", None, "c"]
