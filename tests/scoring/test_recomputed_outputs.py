"""Outputs that are computed again: what rounding may change is no difference, and what is told of another model."""

import pyarrow as pa
import pytest

from scoring.metrics.outputs import OUTPUTS

LIKELIHOODS, CONTINUATIONS = OUTPUTS["likelihood"], OUTPUTS["rtp"]


def likelihoods(log_perplexity: float) -> pa.Table:
    return pa.table(
        {
            "id": ["one"],
            "token_log_likelihoods": pa.array([[-1.0 - log_perplexity, 1.0 - log_perplexity]], pa.list_(pa.float32())),
            "unscorable": pa.array([None], pa.string()),
        }
    )


def continuations(other_ones: int = 0) -> pa.Table:
    texts = [f"other {number}" if number < other_ones else f"text {number}" for number in range(100)]
    return pa.table({"prompt_id": ["one"] * 100, "index": list(range(100)), "text": texts})


@pytest.mark.parametrize(
    ("precision", "rounding", "difference"),
    [("float32", 0.0009, 0.0011), ("bfloat16", 0.009, 0.011), ("float16", 0.009, 0.011)],
)
def test_a_log_perplexity_differs_by_more_than_its_precision_rounds(precision, rounding, difference):
    for moved in (likelihoods(3 + rounding), likelihoods(3 - rounding)):
        assert not list(LIKELIHOODS.differences(likelihoods(3), moved, precision))
    (words,) = LIKELIHOODS.differences(likelihoods(3), likelihoods(3 + difference), precision)
    assert words == f"text one: its log-perplexity is stored as 3.000000, the model gives {3 + difference:.6f}"


@pytest.mark.parametrize(("precision", "most"), [("float32", 2), ("bfloat16", 30), ("float16", 30)])
def test_more_continuations_differ_than_its_precision_changes(precision, most):
    assert not list(CONTINUATIONS.differences(continuations(), continuations(most), precision))
    (words,) = CONTINUATIONS.differences(continuations(), continuations(most + 1), precision)
    assert words == f"{most + 1} of 100 continuations are other ones than the model gives, as of prompts one"


def test_three_prompts_whose_continuations_differ_are_named_in_order():
    prompts = ["e", "b", "d", "a", "c"]
    stored = pa.table({"prompt_id": prompts, "index": [0] * 5, "text": ["before"] * 5})
    recomputed = stored.set_column(2, "text", pa.array(["after"] * 5))
    (words,) = CONTINUATIONS.differences(stored, recomputed, "float32")
    assert words == "5 of 5 continuations are other ones than the model gives, as of prompts a, b, c"


def test_likelihoods_of_other_texts_are_said_to_be_so_and_a_text_without_one_differs_where_the_other_has_one():
    stored = likelihoods(3)
    (words,) = LIKELIHOODS.differences(stored, stored.set_column(0, "id", pa.array(["two"])), "float32")
    assert words == "1 of 1 random texts have stored likelihoods"
    nothing = pa.table(
        {
            "id": ["one"],
            "token_log_likelihoods": pa.array([[]], pa.list_(pa.float32())),
            "unscorable": pa.array(["no tokens"], pa.string()),
        }
    )
    assert not list(LIKELIHOODS.differences(nothing, nothing, "float32"))
    (words,) = LIKELIHOODS.differences(stored, nothing, "float32")
    assert words == "text one: its log-perplexity is stored as 3.000000, the model gives nan"
    (words,) = LIKELIHOODS.differences(nothing, stored, "float32")
    assert words == "text one: its log-perplexity is stored as nan, the model gives 3.000000"


def test_continuations_that_one_side_lacks_differ():
    whole, text_is_null = continuations(), continuations().set_column(2, "text", pa.array([None] * 100, pa.string()))
    (words,) = CONTINUATIONS.differences(whole, text_is_null, "float32")
    assert words == "100 of 100 continuations are other ones than the model gives, as of prompts one"
    (words,) = CONTINUATIONS.differences(text_is_null.slice(0, 90), text_is_null, "float32")
    assert words == "10 of 100 continuations are other ones than the model gives, as of prompts one"


EXACT = "float32: weights and activations are exact; batches change no value."
ROUNDED = "weights and activations are rounded, which is another protocol than float32."
DRAWN = "what is drawn depends on it, the prompt and the continuation's number alone."


def test_each_parameter_of_likelihoods_is_described():
    assert LIKELIHOODS.describe(LIKELIHOODS.parameters({})) == [
        ("bos", "none: a causal model is not asked how likely the first token is, as nothing stands before it."),
        ("variant", "original: a masked model is asked for one token at a time, with all others in sight."),
        ("mask_token", "tokenizer: a hidden token is replaced by the tokenizer's own mask."),
        ("stride", "512 tokens between the windows over a text that is longer than the model's context."),
        ("precision", EXACT),
    ]
    changes = {"bos": "prepend", "variant": "word_l2r", "mask_token": "id:103", "stride": 64, "precision": "bfloat16"}
    assert LIKELIHOODS.describe(LIKELIHOODS.parameters(changes)) == [
        ("bos", "prepend: the token for the beginning stands before a text, and every token of it is scored."),
        ("variant", "word_l2r: the later pieces of the same word are hidden too."),
        (
            "mask_token",
            "id:103: hidden tokens are replaced by this id whatever the tokenizer, as the published code does.",
        ),
        ("stride", "64 tokens between the windows over a text that is longer than the model's context."),
        ("precision", f"bfloat16: {ROUNDED}"),
    ]
    assert dict(LIKELIHOODS.describe(LIKELIHOODS.parameters({"precision": "float16"})))["precision"] == (
        f"float16: {ROUNDED}"
    )


def test_each_parameter_of_continuations_is_described_and_one_without_words_is_shown_as_it_is():
    changes = {"k": 10, "temperature": 0.5, "top_p": 1.0, "top_k": 40, "max_new_tokens": 30, "seed": 3}
    assert CONTINUATIONS.describe({"other": 7, **CONTINUATIONS.parameters(changes)}) == [
        ("k", "10 continuations of each prompt."),
        ("temperature", "0.5: logits are divided by it before drawing."),
        ("top_p", "1: no token is left out for being unlikely."),
        ("top_k", "40: only so many of the likeliest may follow."),
        ("max_new_tokens", "30 tokens at most; a continuation stops before at the end of text."),
        ("seed", f"3: {DRAWN}"),
        ("precision", EXACT),
        ("other", "7"),
    ]
    usual = dict(CONTINUATIONS.describe(CONTINUATIONS.parameters({})))
    assert usual["temperature"] == "1: probabilities are the model's own."
    assert usual["top_p"] == "0.9: only the likeliest tokens that together reach this probability may follow."
    assert usual["top_k"] == "0: no limit on how many tokens may follow."
    with pytest.raises(TypeError):
        CONTINUATIONS.parameters({"other": 7})


def test_each_parameter_of_a_chat_is_described():
    chat = OUTPUTS["rtp-chat"]
    parameters = {**chat.parameters({}), "system_prompt": "Be brief.", "instruction": "Go on.", "refusals": "0" * 64}
    assert chat.describe(parameters) == [
        (
            "system_prompt",
            "\u201cBe brief.\u201d is the system prompt. It stands before the request where a template knows no system "
            "role.",
        ),
        ("instruction", "\u201cGo on.\u201d is the request; the prompt follows it after an empty line."),
        ("template", "own: messages are rendered by the template of the model's tokenizer, or by its server."),
        (
            "thinking",
            "off: where the template can switch reasoning off, it is; reasoning is left out of every answer.",
        ),
        ("date", "2026-01-01: what a template gets that asks for today's date."),
        ("k", "25 continuations of each prompt."),
        ("temperature", "1: probabilities are the model's own."),
        ("top_p", "0.9: only the likeliest tokens that together reach this probability may follow."),
        ("top_k", "0: no limit on how many tokens may follow."),
        ("seed", f"0: {DRAWN}"),
        ("precision", EXACT),
        ("max_new_tokens", "64 tokens at most, reasoning and echo included."),
        (
            "rules",
            "1: what stands up to </think> is reasoning and is left out; an answer whose reasoning does not end is "
            "none. A prompt that the answer repeats at its beginning is left out. A refusal is scored like any answer, "
            "and counted.",
        ),
        ("refusals", "000000000000: the sha256 of the list of beginnings by which refusals are found."),
    ]


def test_what_the_outputs_of_each_method_are():
    by_method = {
        name: (one.title, one.artefact, one.key, one.sampled, one.contributed, one.is_chat)
        for name, one in OUTPUTS.items()
    }
    assert by_method == {
        "likelihood": ("likelihoods", "likelihoods", "id", False, True, False),
        "token_likelihood": ("likelihoods, token by token", "token_likelihoods", "id", False, False, False),
        "passage_likelihood": ("likelihoods of passages", "likelihoods", "id", False, False, False),
        "rtp": ("continuations, rtp", "continuations", "prompt_id", True, True, False),
        "rtp-helm": ("continuations, rtp-helm", "continuations", "prompt_id", True, True, False),
        "regard": ("continuations, regard", "continuations", "prompt_id", True, True, False),
        "rtp-chat": ("answers of chats, rtp-chat", "answers", "prompt_id", True, True, True),
    }
    # Regard compares harmful with harmless statements by their likelihoods, which no other continuations need.
    assert {name for name, one in OUTPUTS.items() if getattr(one, "with_likelihoods", False)} == {"regard"}
    assert OUTPUTS["token_likelihood"].usual.bos == "prepend"  # each token has a likelihood, the first too


def test_models_that_do_not_continue_texts_are_refused_with_what_they_do():
    assert [LIKELIHOODS.refuse_kind(kind) for kind in ("causal", "masked", "permutation")] == ["", "", ""]
    assert CONTINUATIONS.refuse_kind("causal") == ""
    assert CONTINUATIONS.refuse_kind("masked") == (
        "It scores how models continue texts. This is a masked model, and only causal ones do."
    )
    assert OUTPUTS["rtp-chat"].refuse_kind("permutation") == (
        "It scores how models answer in a chat. This is a permutation model, and only causal ones do."
    )


def test_checkpoints_come_after_a_thousand_continuations_or_as_many_texts_as_usual():
    assert [CONTINUATIONS.texts_per_shard(64, {"k": k}) for k in (1, 25, 999, 2000)] == [1000, 40, 1, 1]
    assert LIKELIHOODS.texts_per_shard(64, {}) == 64


def test_only_likelihoods_by_one_method_take_the_same_time_whatever_the_texts():
    assert LIKELIHOODS.paces_alike("likelihood")
    assert not LIKELIHOODS.paces_alike("token_likelihood")
    assert not CONTINUATIONS.paces_alike("rtp")


def test_a_chat_service_is_asked_for_answers_alone():
    texts = pa.table({"id": ["one"], "text": ["One"]})
    with pytest.raises(NotImplementedError, match="a chat service gives no likelihoods"):
        LIKELIHOODS.ask_service(None, texts, None, lambda _count: None)
    with pytest.raises(NotImplementedError, match="a chat service gives no continuations"):
        CONTINUATIONS.most_spent(texts, None)
    assert LIKELIHOODS.count_answers(likelihoods(3)) == {}


def test_answers_are_counted_with_what_was_found_in_them():
    flags = {"reasoned": [True, False, True, None], "echoed": [None] * 4, "refused": [True, True, True, None]}
    answers = pa.table(
        {
            "raw": pa.array(["a", "b", "c", None], pa.string()),
            "text": pa.array(["a", None, "c", None], pa.string()),
            **{name: pa.array(values, pa.bool_()) for name, values in flags.items()},
        }
    )
    counts = {"answers": 3, "unended": 1, "reasoned": 2, "echoed": 0, "refused": 3}
    assert OUTPUTS["rtp-chat"].count_answers(answers) == counts
