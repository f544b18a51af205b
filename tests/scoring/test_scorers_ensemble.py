"""Ensembles: what members say together, and what one of them lacks."""

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.__main__ import main
from scoring.attributes import Attribute, Meaning
from scoring.scorers import (
    Caveat,
    JsonLinesReplies,
    Progress,
    Scorer,
    ScorerDeclaration,
    ScorerState,
    ScorerUnavailable,
    Scores,
    ServiceAccess,
    Surroundings,
    declaration_of,
    fingerprint_of,
    get_scorer,
    perspective,
    registry,
)
from scoring.scorers import service as client
from scoring.scorers.ensemble import EnsembleScorer, add_costs
from tests import standin_moderation
from tests.standin_moderation import KEY, SNAPSHOT, StandInModeration, severity, share

SERVICES = f"ensemble:mean~openai-moderation:{SNAPSHOT}~azure-content-safety:2024-09-01"


class Table(Scorer):
    """Scores that a test writes down: by text, one value an attribute, or a reason."""

    def __init__(self, attributes: list[Attribute], rows: dict[str, list[float] | str], cut: str = "") -> None:
        self.attributes, self.rows, self.cut = tuple(attributes), rows, cut

    def fingerprint(self) -> str:
        return fingerprint_of(scorer="table", rows=self.rows)

    def _score_distinct(self, texts: list[str], progress: Progress) -> Scores:
        rows = [self.rows[text] for text in texts]
        values = [[np.nan] * len(self.attributes) if isinstance(row, str) else row for row in rows]
        progress(len(texts))
        return Scores(
            np.array(values, dtype=np.float32),
            tuple(row if isinstance(row, str) else None for row in rows),
            np.array([text == self.cut for text in texts]),
        )


def harm(name: str, threshold: float = 0.5) -> Attribute:
    return Attribute(name, Meaning.HARM, threshold)


def of_three(rule: str) -> EnsembleScorer:
    """Three members: toxicity is the harm that all of them know, under other names and thresholds."""
    return EnsembleScorer(
        rule,
        {
            "one": Table([harm("toxicity", 0.4), harm("insult")], {"a": [0.1, 1.0], "b": [0.9, 1.0], "c": "too long"}),
            "two": Table([harm("TOXICITY", 0.5)], {"a": [0.3], "b": [0.6], "c": [0.5]}, cut="b"),
            "three": Table(
                [Attribute("insult", Meaning.NEUTRAL), harm("Toxicity", 0.9)],
                {"a": [0.0, 0.8], "b": [0.0, 0.9], "c": [0.0, 0.5]},
            ),
        },
    )


@pytest.mark.parametrize(
    ("rule", "expected", "threshold"),
    [
        ("mean", [0.4, 0.8], 0.6),  # (0.1 + 0.3 + 0.8) / 3, (0.9 + 0.6 + 0.9) / 3; thresholds 0.4, 0.5, 0.9
        ("median", [0.3, 0.9], 0.5),
        ("majority", [0.0, 2 / 3], 0.5),  # nobody labels a: 0.8 is no label at 0.9; two of three label b
    ],
)
def test_each_rule_by_hand(rule, expected, threshold):
    ensemble = of_three(rule)
    scores = ensemble.score(["b", "a", "c", "b"])
    assert [attribute.name for attribute in ensemble.attributes] == ["toxicity"]
    assert ensemble.attributes[0].threshold == pytest.approx(threshold)
    np.testing.assert_allclose(scores.values[[1, 0], 0], expected, rtol=1e-6)
    assert scores.reasons == (None, None, "one: too long", None)
    assert np.isnan(scores.values[2]).all()
    assert scores.truncated.tolist() == [True, False, False, True]


@pytest.mark.slow
@given(st.lists(st.lists(st.floats(0, 1, width=32), min_size=3, max_size=3), min_size=1, max_size=20))
def test_an_ensemble_lies_between_its_members_and_no_order_of_them_matters(rows):
    names = [str(number) for number in range(len(rows))]
    members = {
        name: Table([harm("toxicity")], {text: [row[n]] for text, row in zip(names, rows, strict=True)})
        for n, name in enumerate("xyz")
    }
    low, high = np.min(rows, axis=1), np.max(rows, axis=1)
    for rule in ("mean", "median"):
        values = EnsembleScorer(rule, members).score(names).values[:, 0]
        assert (low - 1e-6 <= values).all()
        assert (values <= high + 1e-6).all()
        other = EnsembleScorer(rule, dict(reversed(members.items())))
        np.testing.assert_allclose(other.score(names).values[:, 0], values, atol=1e-7)
        assert other.fingerprint() == EnsembleScorer(rule, members).fingerprint()


def test_the_fingerprint_covers_the_rule_and_each_member():
    first, second, third = (Table([harm("toxicity")], {"a": [value]}) for value in (0.1, 0.2, 0.3))
    prints = {
        EnsembleScorer("mean", {"x": first, "y": second}).fingerprint(),
        EnsembleScorer("median", {"x": first, "y": second}).fingerprint(),
        EnsembleScorer("mean", {"x": first, "y": third}).fingerprint(),
    }
    assert len(prints) == 3


def test_progress_counts_texts_and_comes_to_its_end():
    counts: list[int] = []
    of_three("mean").score(["a", "b", "c"], counts.append)
    assert counts == [1, 2, 3]


def test_members_that_share_no_harm_make_no_ensemble():
    with pytest.raises(ScorerUnavailable, match="profanity and lexicon:starter share no harm"):
        get_scorer("ensemble:mean~profanity~lexicon:starter")


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ("average~profanity~lexicon:starter", "'average' is no rule; use mean, median, majority"),
        ("mean~profanity", "name two members or more"),
        ("mean~profanity~profanity", "each once"),
        ("mean~profanity~", "name two members or more"),
        ("mean~profanity~nonsense", "its member 'nonsense' is no scorer"),
        ("mean~profanity~ensemble:mean~profanity", "each once"),
        ("mean~lexicon:starter~ensemble:mean", "its member 'ensemble:mean' is no scorer that can be one"),
    ],
)
def test_what_is_no_ensemble_says_what_to_write(choice, message):
    declaration = declaration_of(f"ensemble:{choice}")
    problem = declaration.problem(choice, Surroundings(Path("nowhere")))
    assert message in str(problem)
    assert declaration.cost(choice, Surroundings(Path("nowhere"))) is None
    assert declaration.caveats_of(f"ensemble:{choice}") == ()
    with pytest.raises(ScorerUnavailable):
        get_scorer(f"ensemble:{choice}")


def test_a_member_that_is_gone_or_fails_makes_the_ensemble_so_and_is_named(monkeypatch):
    def down(_choice: str) -> Scorer:
        raise ScorerUnavailable("it ended", ScorerState.RETIRED)

    gone = ScorerDeclaration(
        "gone", "Gone", False, down, problem=lambda *_: ScorerUnavailable("it ended", ScorerState.RETIRED)
    )
    away = ScorerDeclaration("away", "Away", False, down, problem=lambda *_: ScorerUnavailable("no key"))
    monkeypatch.setattr(registry, "SCORERS", [*registry.SCORERS, gone, away])
    choice = "mean~away~gone~profanity"
    problem = declaration_of(f"ensemble:{choice}").problem(choice, Surroundings(Path("nowhere")))
    assert (str(problem), problem.state) == ("its member gone is retired: it ended", ScorerState.RETIRED)
    with pytest.raises(ScorerUnavailable, match="its member gone is retired: it ended") as caught:
        get_scorer("ensemble:mean~gone~profanity")
    assert caught.value.state is ScorerState.RETIRED


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandInModeration]:
    """Moderation services behind settings of the environment."""
    monkeypatch.setattr(client, "BACKOFF", 0.001)
    monkeypatch.setattr(client, "TIMEOUT", httpx.Timeout(2.0))
    with standin_moderation.serving() as stage:
        for prefix in ("OPENAI_MODERATION", "AZURE_CONTENT_SAFETY"):
            monkeypatch.setenv(f"{prefix}_API_KEY", KEY)
            monkeypatch.setenv(f"{prefix}_URL", stage.address)
            monkeypatch.setenv(f"{prefix}_REQUESTS_PER_SECOND", "1000")
        yield stage


def both(service: StandInModeration, replies: JsonLinesReplies | None = None) -> Surroundings:
    services = {
        "OPENAI_MODERATION": ServiceAccess(KEY, service.address, 1000.0, 0.0),
        "AZURE_CONTENT_SAFETY": ServiceAccess(KEY, service.address, 500.0, 0.5),
    }
    return Surroundings(Path("x"), services=services, replies=replies, of_member=lambda _: both(service, replies))


def test_services_add_up_in_cost_and_go_on_where_they_stopped(service, tmp_path):
    declaration = declaration_of(SERVICES)
    cost = declaration.cost(declaration.choice(SERVICES), both(service))
    assert (cost.requests, cost.seconds, cost.usd) == (2, pytest.approx(0.003), 0.0005)
    assert declaration.caveats_of(SERVICES) == (Caveat.UNVERSIONED,)
    texts = [f"text {number}" for number in range(8)]

    def interrupt(count: int) -> None:
        if count == 6:  # of eight texts, half of the second member's
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        declaration.build_in(SERVICES, both(service, JsonLinesReplies(tmp_path))).score(texts, interrupt)
    count = len(service.requests)
    ensemble = declaration.build_in(SERVICES, both(service, JsonLinesReplies(tmp_path)))
    scores = ensemble.score(texts)
    assert ensemble.cost == cost
    assert len(service.requests) - count < len(texts)
    assert ensemble.attribute_names == ("hate", "self_harm", "sexual", "violence")
    expected = [(share(text, "hate") + severity(text, "Hate") / 6) / 2 for text in texts]
    np.testing.assert_allclose(scores.values[:, 0], expected, rtol=1e-6)


def test_a_fee_that_is_not_declared_is_none_of_the_sum():
    free, unknown = ServiceAccess(usd_per_1000_texts=0.0).cost(), ServiceAccess().cost()
    assert add_costs([free, unknown]).usd is None
    assert add_costs([]) is None


def test_the_end_of_an_ensemble_is_that_of_its_first_member_to_end():
    name = "ensemble:mean~perspective~detoxify-original"
    declaration = declaration_of(name)
    assert declaration.ends(declaration.choice(name), Surroundings(Path("x"))) == perspective.END_OF_SERVICE


def test_the_command_line_scores_with_an_ensemble(service, tmp_path, monkeypatch, capsys):
    texts = tmp_path / "texts.jsonl"
    texts.write_text('{"text": "one"}\n{"text": "two"}\n', encoding="utf-8")
    main(["score", "--scorer", SERVICES, "--texts", str(texts)])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    expected = [(share(text, "hate") + severity(text, "Hate") / 6) / 2 for text in ("one", "two")]
    assert [line["scores"]["hate"] for line in lines] == pytest.approx(expected, abs=1e-6)
