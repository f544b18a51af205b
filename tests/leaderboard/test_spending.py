"""What runs may spend of a chat service, whose key a server gets, and how large a model fits into the workers."""

from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.utils import timezone

from leaderboard.models import LanguageModel, RetiredScorer, Run, ScorerProbe
from leaderboard.services import memory, scorer_probes, spending
from leaderboard.services.spending import SpendingLimitReached, set_aside
from scoring.scorers import ScorerUnavailable


@pytest.fixture
def runs(metric, settings) -> list[Run]:
    """Two runs, of which the first has spent 10 requests and 100 tokens of 100 and 1,000."""
    settings.SERVED_MOST_REQUESTS, settings.SERVED_MOST_TOKENS = 100, 1000
    runs = []
    for number in (1, 2):
        model = LanguageModel.objects.create(
            slug=f"m{number}", name="M", kind="causal", source="server", location=f"http://m/{number}", revision="1"
        )
        runs.append(Run.objects.create(model=model, protocol=metric.protocol, requests_made=5, tokens_used=50))
    Run.objects.filter(pk=runs[0].pk).update(requests_made=10, tokens_used=100)
    return runs


def spent(run: Run) -> tuple[int, int]:
    return Run.objects.values_list("requests_made", "tokens_used").get(pk=run.pk)


@pytest.mark.django_db
def test_twice_what_a_part_takes_is_set_aside_and_what_was_not_spent_is_given_back(runs):
    with set_aside(runs[0], 20, 200) as allowance:
        assert (allowance.most_requests, allowance.most_tokens) == (40, 400)
        assert spent(runs[0]) == (50, 500), "before it is spent"
        allowance.requests, allowance.tokens = 21, 190
    assert spent(runs[0]) == (31, 290)

    def fail() -> None:
        with set_aside(runs[0], 60, 600) as allowance:
            assert (allowance.most_requests, allowance.most_tokens) == (69, 710), "no more than the limit leaves"
            allowance.requests, allowance.tokens = 1, 10
            raise ValueError("it broke")

    with pytest.raises(ValueError, match="it broke"):
        fail()
    assert spent(runs[0]) == (32, 300)
    assert spent(runs[1]) == (5, 50), "each run has a limit of its own"


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("requests", "tokens", "is_allowed"), [(90, 900, True), (91, 900, False), (90, 901, False), (95, 950, False)]
)
def test_a_part_that_may_pass_the_limit_is_not_begun(runs, requests, tokens, is_allowed):
    if is_allowed:
        with set_aside(runs[0], requests, tokens) as allowance:
            assert (allowance.most_requests, allowance.most_tokens) == (90, 900)
        return
    with pytest.raises(SpendingLimitReached) as caught, set_aside(runs[0], requests, tokens):
        pass
    assert "10 of 100 requests and 100 of 1,000 tokens are spent" in str(caught.value)
    assert f"may take {requests:,} requests and {tokens:,} tokens" in str(caught.value)
    assert spent(runs[0]) == (10, 100)


@pytest.mark.parametrize(
    ("address", "key"),
    [
        ("https://models.example/v1", "short"),
        ("https://models.example/v1/deep/er", "long"),
        ("https://models.example/v1/deep", "long"),
        ("https://models.example/v1/deeper", "short"),
        ("https://models.example/v2", "usual"),
        ("http://models.example/v1", "usual"),
        ("https://other.example/v1", "usual"),
    ],
)
def test_a_server_gets_the_key_of_the_longest_address_that_it_begins_with(settings, address, key):
    settings.COMPLETIONS_API_KEY = "usual"
    settings.COMPLETIONS_API_KEYS = {
        "https://models.example/v1/": "short",
        "https://models.example/v1/deep": "long",
    }
    assert spending.key_for(address) == key


def test_a_model_needs_its_weights_and_a_tenth_more_and_the_libraries(settings, monkeypatch):
    monkeypatch.setattr(memory, "slow_precisions", lambda: {"float16"})
    settings.WORKER_MEMORY_GB = 5.5
    assert memory.memory_of_workers() == 5.5e9
    assert memory.memory_needed(10**9) == memory.memory_needed(10**9, "") == pytest.approx(5.5e9)
    assert memory.memory_needed(10**9, "bfloat16") == pytest.approx(3.3e9)
    assert (memory.most_parameters(), memory.most_parameters("float16")) == pytest.approx((1e9, 2e9), abs=1)
    assert memory.explain_size(10**9 - 1) == memory.explain_size(10**9 - 1, "") == ""
    assert memory.explain_size(15 * 10**8) == (
        "It has 1,500,000,000 parameters and needs about 7.7 GB to run in float32; the workers of this board have "
        "5.5 GB. Choose bfloat16, which fits, submit a smaller one, or ask the operators for a larger worker."
    )
    assert "5.5 GB. Submit a smaller one, or ask" in memory.explain_size(10**10, "bfloat16")
    settings.WORKER_MEMORY_GB = 1.0
    assert memory.most_parameters() == 0
    settings.WORKER_MEMORY_GB = 0
    assert memory.memory_of_workers() > 1e8, "of this machine"


def test_an_evaluation_takes_two_operations_a_parameter_and_token():
    assert memory.seconds_estimated(10**9, 1000) == pytest.approx(2 * 1e9 * 25 * 1000 / 7e10)
    assert memory.seconds_estimated(10**9, 1000, "bfloat16") == pytest.approx(2 * 1e9 * 25 * 1000 / 1.3e11)
    assert memory.seconds_estimated(10**9, 1000, "float16") == pytest.approx(2 * 1e9 * 25 * 1000 / 1.6e10)


@pytest.fixture
def scorers_in_use(monkeypatch) -> list[str]:
    names = ["old", "retired", "right", "stale", "tried", "wrong"]
    monkeypatch.setattr(scorer_probes.scorers, "scorers_in_use", lambda: names)
    RetiredScorer.objects.create(name="retired", reason="It ended.")
    minutes = {"old": 24 * 60 + 1, "right": 23 * 60, "stale": 10.5, "tried": 9, "another": 1}
    for name, age in minutes.items():
        problem = "" if name in ("old", "right") else "It cannot be loaded."
        ScorerProbe.objects.create(name=name, problem=problem, probed_at=timezone.now() - timedelta(minutes=age))
    return names


@pytest.mark.django_db
def test_scorers_are_tried_again_ten_minutes_after_a_failure_and_a_day_after_a_success(scorers_in_use):
    assert scorer_probes.due_probes() == ["old", "stale", "wrong"]


@pytest.mark.django_db
def test_each_scorer_that_is_due_is_loaded_without_a_download_and_what_came_of_it_is_noted(scorers_in_use, monkeypatch):
    calls = []

    def load(name: str, epoch: str, *, may_fetch: bool) -> None:
        calls.append((name, epoch, may_fetch))
        if name == "stale":
            raise ScorerUnavailable("import it first")
        if name == "wrong":
            raise RuntimeError("it broke")

    monkeypatch.setattr(scorer_probes.scorers, "scorer_for", load)
    monkeypatch.setattr(scorer_probes, "worker_name", lambda: "default@here")
    assert scorer_probes.probe_scorers() == 3
    assert calls == [(name, "probe", False) for name in ("old", "stale", "wrong")]
    rows = ScorerProbe.objects.filter(name__in=["old", "stale", "wrong"]).order_by("name")
    assert list(rows.values_list("name", "problem", "worker")) == [
        ("old", "", "default@here"),
        ("stale", "import it first", "default@here"),
        ("wrong", "RuntimeError: it broke", "default@here"),
    ]
    assert all(timezone.now() - row.probed_at < timedelta(minutes=1) for row in rows)
    assert scorer_probes.unloadable_scorers() == {
        "another": "It cannot be loaded.",
        "stale": "import it first",
        "tried": "It cannot be loaded.",
        "wrong": "RuntimeError: it broke",
    }
    assert scorer_probes.probe_scorers() == 0
    ScorerProbe.objects.all().delete()
    monkeypatch.setattr(scorer_probes, "stop_requested", SimpleNamespace(is_set=lambda: True))
    assert scorer_probes.probe_scorers() == 0, "it has to stop"
