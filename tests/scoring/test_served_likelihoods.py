"""Likelihoods from a server: those of the same weights in process, or refused with the reason."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from scoring.likelihood import (
    LikelihoodSettings,
    NotApplicable,
    Passage,
    Unscorable,
    likelihoods_table,
    token_log_likelihoods,
)
from scoring.likelihood.served_tokens import PromptTokens, joins_to, trimmed_offsets
from scoring.likelihood.server import LikelihoodWay, Way, _likelihood, find_way, server_likelihoods
from scoring.likelihood.text_likelihood import TextLikelihood
from scoring.likelihood.verification import (
    TOLERANCES,
    LikelihoodsDiffer,
    compare_likelihoods,
    require_agreement,
    tolerance_for,
)
from scoring.metrics.outputs import OUTPUTS
from scoring.served import CompletionsServer, ServiceChanged, transport
from scoring.served.control import SHA256, build_control_openings, build_control_sentences, hash_control_texts
from tests.scoring.completions_server import CompletionsStage, as_json, completions_server
from tests.scoring.model_server import ECHO, VLLM, ModelServer, miniature, stand_in

TEXTS = [
    "The river runs past the old mill.",
    "“Would you like some tea?” asked the baker — and everybody said yes 😀.",
    "On 14 March 2019 we paid 7.45 for two cafés.",
    " a leading space and a\nline break",
]
SETTINGS = LikelihoodSettings()


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[CompletionsStage]:
    monkeypatch.setattr(transport, "BACKOFF", 0.001)
    with completions_server() as opened:
        yield opened


def at(stage: CompletionsStage, **options: object) -> CompletionsServer:
    return CompletionsServer(**{"url": stage.url, "model": "small/one", "tries": 2, **options})


def in_process(texts, settings: LikelihoodSettings = SETTINGS) -> list[np.ndarray]:
    return [likelihood.tokens for likelihood in token_log_likelihoods(miniature(), texts, settings)]


def by_server(stage, texts, settings: LikelihoodSettings = SETTINGS) -> list[np.ndarray]:
    server = at(stage)
    return [answer.likelihood.tokens for answer in server_likelihoods(server, find_way(server), texts, settings)]


def compared_with_weights(stage):
    sentences = build_control_sentences()[::10]
    ids, texts = [sentence.id for sentence in sentences], [sentence.text for sentence in sentences]
    server = at(stage)
    served = server_likelihoods(server, find_way(server), texts, SETTINGS)
    reference = list(token_log_likelihoods(miniature(), texts, SETTINGS))
    rows = likelihoods_table(ids, [answer.likelihood for answer in served])
    agreement = compare_likelihoods(rows, likelihoods_table(ids, reference))
    require_agreement(agreement, TOLERANCES["float32"], "they differ")
    return agreement


@pytest.mark.parametrize("form", [VLLM, ECHO])
def test_the_way_is_found_by_asking_and_the_tokens_are_those_of_the_engine(stage, form):
    stand_in(stage, ModelServer(form))
    server = at(stage)
    assert find_way(server) == LikelihoodWay(Way(form), leads=False)
    answers = server_likelihoods(server, find_way(server), TEXTS, SETTINGS)
    assert [answer.likelihood.windows for answer in answers] == [1] * len(TEXTS)
    for ours, theirs in zip(by_server(stage, TEXTS), in_process(TEXTS), strict=True):
        assert ours.dtype == np.float32
        assert np.allclose(ours, theirs, atol=1e-4)


@pytest.mark.parametrize("form", [VLLM, ECHO])
def test_a_token_before_the_text_is_found_and_makes_it_the_other_definition(stage, form):
    stand_in(stage, ModelServer(form)).leads = True
    way = find_way(at(stage))
    assert way == LikelihoodWay(Way(form), leads=True, can_lead=True)
    prepended = LikelihoodSettings(bos="prepend")
    for ours, theirs in zip(by_server(stage, TEXTS, prepended), in_process(TEXTS, prepended), strict=True):
        assert np.allclose(ours, theirs, atol=1e-4)
    with pytest.raises(NotApplicable, match="bos = 'none': the server puts a token of its own before every text"):
        server_likelihoods(at(stage), way, TEXTS, SETTINGS)


def test_a_server_that_adds_special_tokens_where_it_is_told_gives_both_definitions(stage):
    stand_in(stage, ModelServer()).obeys = True
    assert find_way(at(stage)) == LikelihoodWay(Way.PROMPT_LOGPROBS, leads=False, can_lead=True)
    for settings in (SETTINGS, LikelihoodSettings(bos="prepend")):
        for ours, theirs in zip(by_server(stage, TEXTS, settings), in_process(TEXTS, settings), strict=True):
            assert np.allclose(ours, theirs, atol=1e-4)


def test_a_server_without_a_token_before_the_text_is_refused_where_the_definition_needs_one(stage):
    stand_in(stage, ModelServer())
    with pytest.raises(NotApplicable, match="bos = 'prepend': the server puts no token before a text"):
        by_server(stage, TEXTS, LikelihoodSettings(bos="prepend"))


def test_a_server_that_gives_no_likelihoods_says_what_it_answered_to_each_way(stage):
    stand_in(stage, ModelServer(form=""))
    with pytest.raises(NotApplicable, match=r"prompt_logprobs: the answer holds no .*; echo: the answer holds no tok"):
        find_way(at(stage))
    stage.respond = lambda _request: as_json({}, 400)
    with pytest.raises(NotApplicable, match="the server answered 400 to the prompt"):
        find_way(at(stage))


@pytest.mark.parametrize("form", [VLLM, ECHO])
def test_passages_are_scored_as_in_process(stage, form):
    stand_in(stage, ModelServer(form))
    passages = [Passage(TEXTS[0], TEXTS[0].index("past")), Passage(TEXTS[0], 4, 9), Passage(TEXTS[0], 0)]
    for ours, theirs in zip(by_server(stage, passages), in_process(passages), strict=True):
        assert np.allclose(ours, theirs, atol=1e-4)


def test_what_cannot_be_scored_has_the_reason_and_is_never_cut(stage):
    server = stand_in(stage, ModelServer())
    server.longest = 30
    texts = ["", "a", "half \ud83d", "a special <|endoftext|> name", "very " * 40, TEXTS[0]]
    answers = server_likelihoods(at(stage), LikelihoodWay(Way.PROMPT_LOGPROBS, leads=False), texts, SETTINGS)
    reasons = [answer.likelihood.unscorable for answer in answers]
    assert reasons == [
        Unscorable.EMPTY,
        Unscorable.LONE,
        Unscorable.NOT_UNICODE,
        Unscorable.SPECIAL,
        Unscorable.REFUSED,
        None,
    ]
    assert len(answers[-1].likelihood.tokens) == len(in_process([TEXTS[0]])[0])


@pytest.mark.parametrize("form", [VLLM, ECHO])
def test_a_prompt_that_the_server_cuts_silently_has_no_likelihood(stage, form):
    server = stand_in(stage, ModelServer(form))
    server.cut = 4
    (answer,) = server_likelihoods(at(stage), LikelihoodWay(Way(form), leads=False), [TEXTS[0]], SETTINGS)
    assert answer.likelihood.unscorable == Unscorable.MISREAD


def test_a_likelihood_that_is_not_finite_ends_the_run_as_in_process(stage):
    tokens, values = ["The", " end"], [None, -9999.0]
    choice = {"index": 0, "text": "", "logprobs": {"tokens": [*tokens, "!"], "token_logprobs": [*values, -1.0]}}
    stage.respond = lambda _request: as_json({"choices": [choice]})
    (answer,) = server_likelihoods(at(stage), LikelihoodWay(Way.ECHO, leads=False), ["The end"], SETTINGS)
    assert answer.likelihood.unscorable == Unscorable.NOT_FINITE


def test_the_control_texts_are_frozen():
    sentences = build_control_sentences()
    assert (len(sentences), len({sentence.text for sentence in sentences})) == (200, 200)
    assert len({sentence.id for sentence in sentences}) == 200
    assert len(build_control_openings()) == 24
    assert hash_control_texts() == SHA256


@pytest.mark.parametrize("form", [VLLM, ECHO])
def test_the_same_weights_agree_within_the_tolerance_of_float32(stage, form):
    stand_in(stage, ModelServer(form))
    agreement = compared_with_weights(stage)
    assert agreement.largest < 1e-4
    assert agreement.sentences == 20


@pytest.mark.slow_cases
@pytest.mark.parametrize("form", [VLLM, ECHO])
@pytest.mark.parametrize(
    ("fault", "value", "refusal"),
    [
        ("digits", 1, r"they differ by 0\.\d+ nats a token at most \(sentence s\d\d-\d\d\), 0\.\d+ on average"),
        ("wrong_tokenizer", True, "scored tokens by the server and .* by the weights: it is another tokenizer"),
        ("shifted", True, r"nats a token at most .* more than the 0\.002 that is tolerated"),
    ],
)
def test_a_server_with_a_fault_is_refused_with_the_numbers(stage, form, fault, value, refusal):
    server = stand_in(stage, ModelServer(form))
    setattr(server, fault, value)
    with pytest.raises(LikelihoodsDiffer, match=refusal):
        compared_with_weights(stage)


@pytest.mark.parametrize("form", [VLLM, ECHO])
def test_a_server_that_leaves_out_the_first_token_is_refused(stage, form):
    stand_in(stage, ModelServer(form)).without_first = True
    with pytest.raises(NotApplicable, match=r"first token|do not join"):
        find_way(at(stage))


@pytest.mark.slow
def test_other_weights_are_refused(stage):
    stand_in(stage, ModelServer(name="plumb-gpt2-l6-h128"))
    with pytest.raises(LikelihoodsDiffer, match="nats a token at most"):
        compared_with_weights(stage)


def test_the_tolerance_follows_the_declared_precision():
    assert tolerance_for("", "") == tolerance_for("float32", "") == TOLERANCES["float32"]
    assert tolerance_for("bfloat16", "bfloat16") == tolerance_for("float16", "") == TOLERANCES["half"]
    assert tolerance_for("", "GGUF Q4_1") == TOLERANCES["quantised"]


@pytest.mark.parametrize("form", [VLLM, ECHO])
def test_a_changed_fingerprint_midway_stops_and_names_both(stage, form):
    server = stand_in(stage, ModelServer(form))
    server.fingerprints = ["fp_1", "fp_1", "fp_2"]
    way = LikelihoodWay(Way(form), leads=False)
    with pytest.raises(ServiceChanged, match="system_fingerprint was fp_1 and is fp_2"):
        server_likelihoods(at(stage, concurrency=1), way, TEXTS, SETTINGS)
    held = at(stage, identity={"system_fingerprint": "fp_1"})
    with pytest.raises(ServiceChanged):
        server_likelihoods(held, way, TEXTS[:1], SETTINGS)


def test_each_text_is_stored_with_what_its_server_said(stage):
    stand_in(stage, ModelServer()).fingerprints = ["fp_1"]
    texts = pa.table({"id": ["a", "b"], "text": TEXTS[:2]})
    server = at(stage)
    outputs = OUTPUTS["likelihood"]
    table = outputs.ask_server(server, find_way(server), texts, outputs.usual, lambda _count: None)
    assert table["answered_by"].unique().to_pylist() == ['{"model": "small/one", "system_fingerprint": "fp_1"}']
    prompts = OUTPUTS["rtp"]
    table = prompts.ask_server(server, None, texts, prompts.settings(prompts.parameters({"k": 2})), lambda _count: None)
    assert table["answered_by"].to_pylist() == ['{"model": "small/one", "system_fingerprint": "fp_1"}'] * 4


def test_token_ids_come_with_vllm_and_are_refused_without(stage):
    outputs = OUTPUTS["token_likelihood"]
    texts = pa.table({"id": ["a"], "text": TEXTS[:1]})
    stand_in(stage, ModelServer(VLLM)).leads = True
    table = outputs.ask_server(at(stage), find_way(at(stage)), texts, outputs.usual, lambda _count: None)
    assert table["tokens"].to_pylist() == [miniature().tokenizer(TEXTS[0])["input_ids"]]
    stand_in(stage, ModelServer(ECHO)).leads = True
    with pytest.raises(NotApplicable, match="does not say which tokens it read"):
        outputs.ask_server(at(stage), find_way(at(stage)), texts, outputs.usual, lambda _count: None)


def test_what_a_server_says_of_itself_is_found_where_servers_say_it(stage):
    stand_in(stage, ModelServer())
    stage.places |= {"/version": {"version": "0.11.0"}, "/props": {"model_path": "x.gguf", "chat_template": "t" * 300}}
    with transport.open_session(at(stage)) as session:
        identity = session.describe()
    assert identity["models.root"] == "/models/small"
    assert identity["version.version"] == "0.11.0"
    assert identity["props.model_path"] == "x.gguf"
    assert identity["props.chat_template"].startswith("sha256:")
    assert "models.created" not in identity


@pytest.mark.parametrize(
    ("pieces", "text", "joined"),
    [
        (["The", " end"], "The end", True),
        ([" The", " end"], "The end", True),
        (["\u2581The", "\u2581end"], "The end", True),
        (["the", " end"], "The end", True),
        (["The", " e"], "The end", False),
        (["The", " end", "!"], "The end", False),
        (["ok ", "\ufffd", "\ufffd", " go"], "ok 😀 go", True),
        (["ok ", "", "", " go"], "ok 😀 go", True),
        (["ok ", "\ufffd", " go"], "ok and go", False),
        (["ok ", "\ufffd"], "ok 😀", True),
    ],
)
def test_tokens_join_to_the_whole_text_or_not_at_all(pieces, text, joined):
    assert joins_to(pieces, text) is joined


def test_offsets_leave_out_spaces_as_those_of_tokenizers_do():
    assert trimmed_offsets(["The", " old", " mill"], "The old mill") == [(0, 3), (4, 7), (8, 12)]
    assert trimmed_offsets(["\ufffd"], "é") is None


def rows(*texts: list[float] | Unscorable) -> pa.Table:
    likelihoods = [
        TextLikelihood(np.array([], np.float32), text, 0)
        if isinstance(text, Unscorable)
        else TextLikelihood(np.array(text, np.float32), None, 1)
        for text in texts
    ]
    return likelihoods_table(["a", "b", "c"][: len(texts)], likelihoods)


def test_the_difference_of_two_answers_is_the_mean_over_the_tokens_of_the_sentence_that_differs_most():
    agreement = compare_likelihoods(rows([-1, -2], [-1, -4, -1], [-3]), rows([-1.5, -2], [-2, -2, -1], [-3]))
    assert agreement.as_json() == {
        "largest": 1.0,
        "mean": pytest.approx((0.25 + 1.0) / 3),
        "where": "b",
        "sentences": 3,
    }
    require_agreement(agreement, 1.0, "they differ")
    message = (
        r"^they differ by 1\.0000 nats a token at most \(sentence b\), 0\.4167 on average: more than the 0\.9 that is"
    )
    with pytest.raises(LikelihoodsDiffer, match=message):
        require_agreement(agreement, 0.9, "they differ")
    with pytest.raises(LikelihoodsDiffer, match="nan"):
        require_agreement(compare_likelihoods(rows([np.nan]), rows([-1])), 1.0, "they differ")


@pytest.mark.parametrize(
    ("answers", "reference", "words"),
    [
        (rows([-1], Unscorable.LONE), rows([-1], [-1]), "control sentence b has no likelihood: a single token"),
        (rows([-1], [-1]), rows([-1], Unscorable.EMPTY), "control sentence b has no likelihood: no tokens"),
        (
            rows([-1, -2]),
            rows([-1]),
            "control sentence a has 2 scored tokens by the server and 1 by the weights: it is another tokenizer, or a",
        ),
    ],
    ids=["answer", "reference", "tokens"],
)
def test_sentences_that_do_not_compare_are_named(answers, reference, words):
    with pytest.raises(LikelihoodsDiffer, match=words):
        compare_likelihoods(answers, reference)


TEXT = "The river runs"
PIECES = ["The", " river", " runs"]


@pytest.mark.parametrize(
    ("pieces", "values", "passage", "leads", "expected"),
    [
        (PIECES, [np.nan, -1, -2], Passage(TEXT), False, [-1, -2]),
        (PIECES, [-3, -1, -2], Passage(TEXT), True, [-3, -1, -2]),
        (PIECES, [np.nan, -1, -2], Passage(TEXT, 4), False, [-1, -2]),
        (PIECES, [np.nan, -1, -2], Passage(TEXT, 4, 9), False, [-1]),
        (PIECES, [-3, -1, -2], Passage(TEXT, 0, 3), True, [-3]),
        (PIECES, [np.nan, -1, -2], Passage(TEXT, 0, 5), False, [-1]),
        (PIECES, [np.nan, -1, -2], Passage(TEXT, 0, 3), False, Unscorable.LONE),
        (PIECES, [np.nan, -1, -2], Passage(TEXT, 3, 4), False, Unscorable.EMPTY),
        (["The", " riv\ufffd", " runs"], [np.nan, -1, -2], Passage(TEXT, 4), False, Unscorable.MISREAD),
        (["The"], [np.nan], Passage("The"), False, Unscorable.LONE),
        (["The"], [-3], Passage("The"), True, [-3]),
        ([], [], Passage(""), False, Unscorable.EMPTY),
        ([], [], Passage(""), True, Unscorable.EMPTY),
        (PIECES, [np.nan, -np.inf, -2], Passage(TEXT), False, Unscorable.NOT_FINITE),
        (PIECES, [np.nan, -np.inf, -2], Passage(TEXT, 10), False, [-2]),
    ],
)
def test_the_tokens_of_a_passage_that_something_precedes_are_those_that_count(pieces, values, passage, leads, expected):
    likelihood = _likelihood(PromptTokens(pieces, values, None), passage, leads)
    if isinstance(expected, Unscorable):
        assert (likelihood.tokens.tolist(), likelihood.unscorable) == ([], expected)
        assert likelihood.windows == (1 if expected is Unscorable.NOT_FINITE else 0)
    else:
        assert (likelihood.tokens.tolist(), likelihood.unscorable, likelihood.windows) == (expected, None, 1)
        assert likelihood.tokens.dtype == np.float32


def test_a_way_is_kept_and_read_again_and_fits_the_definition_it_can_give():
    way = LikelihoodWay(Way.ECHO, leads=False, can_lead=True)
    assert way.as_json() == {"way": "echo", "leads": False, "can_lead": True}
    assert LikelihoodWay.from_json(way.as_json()) == way
    assert LikelihoodWay.from_json({"way": "prompt_logprobs", "leads": True}) == LikelihoodWay(
        Way.PROMPT_LOGPROBS, leads=True, can_lead=False
    )
    fits = {
        (leads, can_lead): [LikelihoodWay(Way.ECHO, leads, can_lead).fits(bos) for bos in ("none", "prepend")]
        for leads in (False, True)
        for can_lead in (False, True)
    }
    assert fits == {
        (False, False): [True, False],
        (False, True): [True, True],
        (True, False): [False, True],
        (True, True): [False, True],
    }
