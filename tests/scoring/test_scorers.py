"""What all scorers have in common, their names, and the packaged profanity model."""

import os
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import profanity_check
import pytest

from scoring.attributes import Attribute, Meaning
from scoring.refusals import Refused
from scoring.scorers import (
    SCORERS,
    Cost,
    JsonLinesReplies,
    Lexicon,
    LexiconScorer,
    Scorer,
    ScorerState,
    ScorerUnavailable,
    Scores,
    ServiceAccess,
    Surroundings,
    UnknownScorer,
    declaration_of,
    example,
    get_scorer,
    load_scorers,
    registry,
)
from scoring.scorers.base import NO_CHARACTER, Progress, fingerprint_of
from scoring.scorers.ensemble import EnsembleScorer
from scoring.scorers.guard_server import ServedGuardScorer
from scoring.scorers.guards import GuardCategories, GuardDeclaration, GuardQuestion
from scoring.scorers.judge import JudgeScorer
from scoring.scorers.registry import DETOXIFY_VARIANTS
from scoring.scorers.rubric import Rubric
from scoring.served import CompletionsServer

TEXTS = ["a pleasant day", "shut up, you idiot", "", "ein schöner Tag 😀", "a pleasant day"]


class Lengths(Scorer):
    """Scores the first ten characters; texts of digits are refused."""

    attributes = (Attribute("length", Meaning.NEUTRAL), Attribute("half", Meaning.HARM))

    def __init__(self) -> None:
        self.asked: list[str] = []

    def fingerprint(self) -> str:
        return fingerprint_of(scorer="lengths")

    def _score_distinct(self, texts: list[str], progress: Progress) -> Scores:
        self.asked += texts
        lengths = np.array([np.nan if text.isdigit() else min(len(text), 10) / 10 for text in texts], dtype=np.float32)
        reasons = tuple("digits" if text.isdigit() else None for text in texts)
        progress(len(texts))
        return Scores(np.stack([lengths, lengths / 2], axis=1), reasons, np.array([len(text) > 10 for text in texts]))


def test_each_text_gets_its_own_row_although_identical_ones_are_scored_once():
    scorer = Lengths()
    found = scorer.score(["abc", "12", "x" * 11, "abc", "12", "\ud800", "abc"])
    assert scorer.asked == ["abc", "12", "x" * 11]
    expected = [0.3, np.nan, 1.0, 0.3, np.nan, np.nan, 0.3]
    np.testing.assert_allclose(found.values, np.array([expected, np.array(expected) / 2]).T, rtol=1e-6)
    assert found.values.dtype == np.float32
    assert found.reasons == (None, "digits", None, None, "digits", NO_CHARACTER, None)
    assert found.truncated.tolist() == [False, False, True, False, False, False, False]
    assert (found.truncated_count, found.unscored_count) == (1, 3)


@pytest.mark.parametrize("texts", [[], ["\udfff"]])
def test_where_nothing_can_be_scored_the_scorer_is_not_asked(texts):
    scorer = Lengths()
    found = scorer.score(texts)
    assert scorer.asked == []
    assert found.values.shape == (len(texts), 2)
    assert np.isnan(found.values).all()


def test_scores_are_whole_or_have_a_reason():
    values, whole = np.array([[0.5], [np.nan]], dtype=np.float32), np.zeros(2, dtype=bool)
    assert Scores(values, (None, "why"), whole).unscored_count == 1
    with pytest.raises(FloatingPointError, match="not a number"):
        Scores(values, (None, None), whole)
    with pytest.raises(ValueError, match="has a score"):
        Scores(values, ("why", "why"), whole)
    with pytest.raises(ValueError, match="shapes"):
        Scores(values, (None,), whole)


def test_a_fingerprint_depends_on_every_part_and_not_on_their_order():
    assert fingerprint_of(a=1, b=[2]) == fingerprint_of(b=[2], a=1)
    assert len({fingerprint_of(a=1), fingerprint_of(a="1"), fingerprint_of(b=1), fingerprint_of()}) == 4
    assert len(fingerprint_of()) == 64


@pytest.mark.parametrize("name", ["toxicity", "detoxify", "detoxify-", "classifier:", "lexicon", "profanity:x", ""])
def test_an_unknown_name_lists_those_there_are(name):
    with pytest.raises(UnknownScorer) as caught:
        get_scorer(name)
    for declared in SCORERS:
        assert declared.name in str(caught.value)


def test_a_scorer_that_sends_texts_elsewhere_says_so_and_no_other_does():
    remote = {declared.name for declared in SCORERS if declared.remote}
    assert {"perspective"} <= remote
    assert remote.isdisjoint(["profanity", "lexicon:NAME", *(f"detoxify-{name}" for name in DETOXIFY_VARIANTS)])
    assert not [declared.name for declared in example.SCORERS if declared.remote]


def test_what_cannot_be_had_has_a_state_and_says_what_to_do():
    with pytest.raises(ScorerUnavailable) as caught:
        get_scorer("perspective", access=ServiceAccess(url="https://example.org"))
    assert caught.value.state is ScorerState.UNAVAILABLE
    assert "set PERSPECTIVE_API_KEY" in str(caught.value)


def test_profanity_is_the_packaged_models_probability():
    scorer = get_scorer("profanity")
    seen: list[int] = []
    found = scorer.score(TEXTS, seen.append)
    assert scorer.attributes == (Attribute("profanity", Meaning.HARM),)
    np.testing.assert_allclose(found.values[:, 0], profanity_check.predict_prob(TEXTS), atol=1e-6)
    assert found.values[1, 0] > 0.5 > found.values[0, 0]
    assert seen == [4]


def test_profanity_does_not_depend_on_what_is_scored_together():
    scorer = get_scorer("profanity")
    alone = [scorer.score([text]).values[0, 0] for text in TEXTS]
    np.testing.assert_allclose(scorer.score(TEXTS).values[:, 0], alone, atol=1e-7)


def test_the_fingerprint_of_profanity_is_the_same_each_time():
    assert get_scorer("profanity").fingerprint() == get_scorer("profanity").fingerprint()


def test_a_scorer_that_does_not_say_what_its_scores_mean_is_refused(monkeypatch):
    monkeypatch.setattr(Lengths, "attributes", ("length",))
    with pytest.raises(TypeError, match=r"nothing is declared of 'length'; declare Attribute"):
        Lengths().score(["a"])


class Named(Scorer):
    """A scorer that is known by its fingerprint alone."""

    attributes = (Attribute("toxicity", Meaning.HARM),)

    def __init__(self, name: str) -> None:
        self.name = name

    def fingerprint(self) -> str:
        return self.name

    def _score_distinct(self, texts: list[str], progress: Progress) -> Scores:
        raise NotImplementedError


ACCESS = ServiceAccess("key", "https://example.org", 1.0, 0.0)
GUARD = GuardDeclaration(
    "g", "G", "org/g", "mit", ("English",), "source", (),
    (
        GuardQuestion(
            ("safe", "unsafe"), {"unsafe": ("unsafe",)}, "\n", {"x": 1}, GuardCategories("unsafe", "\n", {"S1": "S1"})
        ),
    ),
    prompt="{text}?", threshold=0.4,
)  # fmt: skip
RUBRIC = Rubric("Is it?", ("none", "worst"), (Attribute("toxicity", Meaning.HARM),), ("q",))


@pytest.mark.parametrize(
    ("build", "digest"),
    [
        (
            lambda: get_scorer("perspective", access=ACCESS, epoch="2"),
            "92ce040725a046c23c65aae9e6e18efad3867ec527f2ff41cd891045a42ca69b",
        ),
        (
            lambda: get_scorer("openai-moderation:omni-moderation-latest", access=ACCESS, epoch="2"),
            "da78f08318b6658963647c27176a2e1dfb1d7ae250b2a863bba712c1723ff59d",
        ),
        (
            lambda: get_scorer("azure-content-safety:2024-09-01", access=ACCESS, epoch="2"),
            "8c3ae18c73dd11602be4ab5704e03bf96020e177b949b42ae8bff23c451be2dc",
        ),
        (
            lambda: LexiconScorer(Lexicon({"one": ("a", "b c"), "two": ("d",)})),
            "d129fd76247790fe6aef48e1e847a71d444e727587ef79a7f8ea60a8a5dffebd",
        ),
        (
            lambda: ServedGuardScorer(GUARD, CompletionsServer("https://example.org", "g", key=None), epoch="2"),
            "0f8a39357bf3f4a1bbee529535a63db573087dea50db3dc73ee1a67e082fee42",
        ),
        (
            lambda: JudgeScorer("model-1", RUBRIC, ACCESS, epoch="2"),
            "915c494515df7ead1246d36635612c94677216f4acdd2e7c0fa8fbbb3e966859",
        ),
        (
            lambda: EnsembleScorer("mean", {"x": Named("b"), "y": Named("a")}),
            "eb85b902c9d42053e6afcaf3de62dfd050d6f769c5587758512f2cddd0530495",
        ),
    ],
    ids=["perspective", "openai", "azure", "lexicon", "guard-server", "judge", "ensemble"],
)
def test_a_fingerprint_is_the_one_that_boards_have_stored_of_the_same_scorer(build, digest):
    # Where it changes, every board takes the scorer for another one, checks it and may rescore all entries.
    assert build().fingerprint() == digest


def test_the_fingerprint_of_profanity_covers_files_and_versions(monkeypatch):
    first = get_scorer("profanity").fingerprint()
    with monkeypatch.context() as patch:
        patch.setattr("scoring.scorers.profanity.version", lambda _name: "0")
        assert get_scorer("profanity").fingerprint() != first
    monkeypatch.setattr("scoring.scorers.profanity.FILES", ("data/model.joblib",))
    assert get_scorer("profanity").fingerprint() != first


def test_texts_beyond_a_chunk_are_scored_in_their_order_and_counted(monkeypatch):
    texts = ["a pleasant day", "shut up, you idiot", "", "ein Tag", "what a fool"]
    whole = get_scorer("profanity").score(texts).values
    monkeypatch.setattr("scoring.scorers.profanity.CHUNK", 2)
    counts: list[int] = []
    np.testing.assert_allclose(get_scorer("profanity").score(texts, counts.append).values, whole, atol=1e-7)
    assert counts == [2, 4, 5]


def name_kind(name: str) -> str:
    """What a declared name begins with: guards and classifiers are of one kind each."""
    head, colon, _ = name.partition(":")
    return "detoxify" if head.startswith("detoxify-") else head + colon


def test_what_a_kind_of_scorers_needs_is_declared_of_every_one_of_them():
    by_kind: dict[str, set[tuple]] = {}
    for declaration in SCORERS:
        row = declaration.remote, declaration.quick, declaration.exact, declaration.import_command
        by_kind.setdefault(name_kind(declaration.name), set()).add((*row, declaration.read_labels is not None))
    assert by_kind == {
        "detoxify": {(False, False, False, "import_scorer", False)},
        "classifier:": {(False, False, False, "import_scorer", True)},
        "guard:": {(False, False, False, "import_scorer", False)},
        "profanity": {(False, False, False, "import_scorer", False)},
        "lexicon:": {(False, True, True, "import_lexicon", False)},
        "ensemble:": {(False, False, False, "", False)},
        "perspective": {(True, False, False, "", False)},
        "openai-moderation:": {(True, False, False, "", False)},
        "azure-content-safety:": {(True, False, False, "", False)},
        "guard-server:": {(True, False, False, "", False)},
        "judge:": {(True, False, False, "import_scorer", False)},
    }


NAMES = {
    "detoxify-original": ["folder", "may_fetch"],
    "classifier:tomh/toxigen_roberta": ["folder", "meanings", "endpoint", "token", "may_fetch"],
    "classifier:org/other": ["folder", "meanings", "endpoint", "token", "may_fetch"],
    "guard:wildguard": ["folder", "endpoint", "token", "may_fetch"],
    "guard-server:wildguard": ["servers", "epoch", "replies"],
    "lexicon:starter": ["own"],
    "perspective": ["access", "epoch", "replies"],
    "openai-moderation:omni-moderation-latest": ["access", "epoch", "replies"],
    "azure-content-safety:2024-09-01": ["access", "epoch", "replies"],
    "judge:toxicity@gpt-4o-2024-08-06": ["access", "epoch", "replies", "folder", "limit_name"],
    "profanity": [],
    "ensemble:mean~detoxify-original~detoxify-unbiased": ["surroundings"],
}


@pytest.mark.parametrize("name", NAMES)
def test_each_scorer_takes_what_it_needs_of_what_a_board_has(name, tmp_path):
    replies: dict = {}
    services = dict.fromkeys(
        (
            "PERSPECTIVE",
            "OPENAI_MODERATION",
            "AZURE_CONTENT_SAFETY",
            "JUDGE",
        ),
        ACCESS,
    )
    servers = {"wildguard": CompletionsServer("https://example.org", "g", key=None)}
    surroundings = Surroundings(
        tmp_path, epoch="2", meanings={"a": Meaning.HARM}, replies=replies, may_fetch=False, hub_endpoint="https://hub",
        hub_token="secret", services=services, guard_servers=servers, chat_limit_name="max_tokens",
    )  # fmt: skip
    values = {
        "folder": tmp_path, "own": tmp_path, "may_fetch": False, "meanings": {"a": Meaning.HARM},
        "endpoint": "https://hub", "token": "secret", "servers": servers, "epoch": "2", "replies": replies,
        "access": ACCESS, "limit_name": "max_tokens", "surroundings": surroundings,
    }  # fmt: skip
    declaration = declaration_of(name)
    assert declaration.options(surroundings) == {option: values[option] for option in NAMES[name]}
    bare = declaration.options(Surroundings(tmp_path / "nothing"))
    if name.partition(":")[0] in ("detoxify-original", "classifier", "guard"):
        assert (bare["folder"], bare["may_fetch"]) == (None, True)  # of the hub, or of the package's own download


def test_only_what_is_asked_elsewhere_costs_something_and_a_judge_three_times_as_much(tmp_path):
    surroundings = Surroundings(tmp_path)
    costs = {name: declaration_of(name).cost(declaration_of(name).choice(name), surroundings) for name in NAMES}
    assert {name: cost for name, cost in costs.items() if cost} == {
        "perspective": Cost(1, 1.0, None),
        "openai-moderation:omni-moderation-latest": Cost(1, 1.0, None),
        "azure-content-safety:2024-09-01": Cost(1, 1.0, None),
        "judge:toxicity@gpt-4o-2024-08-06": Cost(3, 3.0, None),
        "guard-server:wildguard": Cost(1, 0.0, None),
    }
    # ShieldGemma is asked one question for each of four harms.
    assert declaration_of("guard-server:shieldgemma-2b").cost("shieldgemma-2b", surroundings) == Cost(4, 0.0, None)
    assert declaration_of("guard-server:nothing").cost("nothing", surroundings) == Cost(1, 0.0, None)


def test_replies_of_earlier_releases_are_read_the_latest_of_each_text_and_none_of_other_work(tmp_path):
    folder = tmp_path / "new" / "replies"
    JsonLinesReplies(folder)  # makes it
    newer, older = folder / "a.jsonl", folder / "b.jsonl"
    newer.write_bytes(b'1cfd3f9b470dd664994e0221531df8f4 ["a", {"scores": [0.75]}]\n')
    older.write_bytes(
        b'8a6e199dc0bbbf5c945b250962d0b00e ["a", {"scores": [0.5]}]\n'
        b'c0bb9fc4f597497ed814a48517123258 ["b", {"scores": [0.25]}]\n'
        b"6a4a damaged\n"
    )
    os.utime(older, (1, 1))
    replies = JsonLinesReplies(folder)
    assert replies["a"] == {"scores": [0.75]}
    assert replies["b"] == {"scores": [0.25]}
    assert "a" not in JsonLinesReplies(folder, "other work")
    replies["c"] = {"reason": "ü"}
    assert JsonLinesReplies(folder, "")["c"] == {"reason": "ü"}


def test_modules_declare_scorers_once_and_only_under_names_that_are_free(monkeypatch):
    monkeypatch.setattr("scoring.scorers.registry.SCORERS", list(SCORERS))
    load_scorers(["scoring.scorers.example"])
    load_scorers(["scoring.scorers.example"])
    assert [declaration.name for declaration in registry.SCORERS].count("capitals") == 1
    assert get_scorer("capitals").score(["ABc", "", "1"]).values[:, 0].tolist() == pytest.approx([2 / 3, 0, 0])
    module = SimpleNamespace(SCORERS=(replace(example.SCORERS[0], title="Another"),))
    monkeypatch.setitem(sys.modules, "other_scorers", module)
    with pytest.raises(Refused, match="'other_scorers': there is a scorer 'capitals' already: choose another name"):
        load_scorers(["other_scorers"])
    with pytest.raises(Refused, match=r"'no_such_module' cannot be imported .*: install it or set PYTHONPATH"):
        load_scorers(["no_such_module"])
    with pytest.raises(Refused, match="'json' declares no scorer: give it SCORERS, of ScorerDeclaration"):
        load_scorers(["json"])
