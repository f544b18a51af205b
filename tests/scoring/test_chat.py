"""Prompts as chats: rendered by the model's own template, within bounds, and continued by the engine."""

import signal
from dataclasses import replace

import pytest

from scoring.evaluation_sets import Prompt, prompts_table
from scoring.generation import CHAT_PROTOCOLS, ChatSettings, UnsupportedRules, chat, continuations, settings_of
from scoring.language_models import ModelRefused, load_files
from scoring.metrics.outputs import OUTPUTS
from tests.chatting import TEMPLATE, WITHOUT_SYSTEM, chat_model

PROMPTS = [Prompt("a", "The gardener opened the gate and"), Prompt("b", "On Friday the train")]
FEW = ChatSettings(k=2, max_new_tokens=4)


def loaded(folder, template):
    return load_files(chat_model(folder / "model", template), "model")


def rendered(model, encoding):
    return model.tokenizer.decode(encoding.ids)


def test_the_protocol_states_everything_that_is_asked_and_how_it_is_read():
    settings = CHAT_PROTOCOLS["rtp-chat"]
    assert (settings.k, settings.temperature, settings.top_p, settings.max_new_tokens) == (25, 1.0, 0.9, 64)
    assert "continuation only" in settings.instruction
    assert len(settings.refusals) == 64
    settings.check_rules()
    with pytest.raises(UnsupportedRules, match="reads answers by rules 0"):
        ChatSettings(rules=0).check_rules()
    with pytest.raises(UnsupportedRules, match="refusals aaa"):
        ChatSettings(refusals="aaa").check_rules()


@pytest.mark.parametrize("deed", ["collect", "ask_service"])
def test_answers_that_are_to_be_read_by_other_rules_are_not_asked_for(deed):
    outputs = OUTPUTS["rtp-chat"]
    with pytest.raises(UnsupportedRules, match="reads answers by rules 0"):
        getattr(outputs, deed)(None, prompts_table(PROMPTS), ChatSettings(rules=0), print)


def test_a_prompt_is_the_last_message_after_the_system_prompt_and_the_instruction(tmp_path):
    model = loaded(tmp_path, TEMPLATE)
    encoding = chat.encode_chats(model, PROMPTS, FEW)[0]
    text = rendered(model, encoding)
    assert text.strip().startswith(f"[system] {FEW.system_prompt}".lower())
    assert text.endswith("gate and\n[assistant]")
    assert chat.find_format(model, FEW).system_role == "system"


@pytest.mark.parametrize(
    "template", [WITHOUT_SYSTEM, TEMPLATE.replace("messages %}", "messages if message.role == 'user' %}", 1)]
)
def test_a_template_without_a_system_role_gets_the_system_prompt_before_the_request(tmp_path, template):
    model = loaded(tmp_path, template)
    assert chat.find_format(model, FEW).system_role == "user"
    text = rendered(model, chat.encode_chats(model, PROMPTS, FEW)[0])
    assert "[system]" not in text
    assert text.index(FEW.system_prompt.lower()) < text.index(FEW.instruction.lower()) < text.index("the gardener")


@pytest.mark.slow
def test_a_template_that_fails_is_refused_with_what_it_says(tmp_path):
    model = loaded(tmp_path, "{{ raise_exception('only tools here') }}")
    with pytest.raises(ModelRefused, match="cannot render a prompt \\(only tools here\\)"):
        chat.encode_chats(model, PROMPTS, FEW)


def test_a_template_that_runs_out_of_memory_for_some_prompts_alone_is_refused(tmp_path):
    trap = "{% if 'gardener' in messages[-1].content %}{{ 'a' * 10 ** 18 }}{% endif %}"
    model = loaded(tmp_path, TEMPLATE + trap)
    assert chat.encode_chats(model, PROMPTS[1:], FEW)
    with pytest.raises(ModelRefused, match=r"cannot render prompt a \(MemoryError: \): correct it"):
        chat.encode_chats(model, PROMPTS, FEW)


def test_a_template_that_leaves_the_prompt_out_is_refused(tmp_path):
    with pytest.raises(ModelRefused, match="it leaves the prompt out"):
        chat.encode_chats(loaded(tmp_path, "hello"), PROMPTS, FEW)


def test_a_template_reaches_nothing_outside_the_sandbox(tmp_path):
    model = loaded(tmp_path, "{{ ''.__class__.__mro__[1].__subclasses__() }}")
    with pytest.raises(ModelRefused, match="cannot render"):
        chat.encode_chats(model, PROMPTS, FEW)


@pytest.mark.slow
def test_the_time_and_the_length_of_a_template_are_bounded(tmp_path, monkeypatch):
    endless = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"
    monkeypatch.setattr(chat, "MOST_SECONDS", 0.1)
    with pytest.raises(ModelRefused, match=r"takes longer than 0\.1 s"):
        chat.encode_chats(loaded(tmp_path / "a", endless), PROMPTS, FEW)
    monkeypatch.setattr(chat, "MOST_SECONDS", 30.0)
    with pytest.raises(ModelRefused, match="writes 200,000 characters for a short prompt"):
        chat.encode_chats(loaded(tmp_path / "b", "{{ 'ab' * 100000 }}"), PROMPTS, FEW)


def test_today_is_always_the_day_that_the_protocol_states(tmp_path):
    model = loaded(tmp_path, "{{ strftime_now('%d %B %Y') }}" + TEMPLATE)
    assert "2026-01-01[system]" in rendered(model, chat.encode_chats(model, PROMPTS, FEW)[0]).replace(" [", "[")


def test_thinking_is_switched_off_where_a_template_can(tmp_path):
    switch = TEMPLATE + "{% if enable_thinking is false %}<think>\n\n</think>\n\n{% endif %}"
    model = loaded(tmp_path, switch)
    assert rendered(model, chat.encode_chats(model, PROMPTS, FEW)[0]).rstrip().endswith("</think>")
    assert chat.find_format(model, FEW).opening == ""


def test_reasoning_that_the_template_begins_belongs_to_the_answer(tmp_path):
    model = loaded(tmp_path, TEMPLATE + "<think>\n")
    by_prompt = continuations(model, PROMPTS, FEW)
    assert all(answer.text.startswith("<think>") for answers in by_prompt for answer in answers)


def test_the_name_of_a_special_token_in_a_prompt_is_ordinary_text(tmp_path):
    model = loaded(tmp_path, TEMPLATE + "{{ eos_token }}")
    end = model.tokenizer.eos_token
    ids = chat.encode_chats(model, [Prompt("a", f"He wrote {end} and")], FEW)[0].ids
    assert ids.count(model.tokenizer.eos_token_id) == 1


def test_a_prompt_that_does_not_fit_is_not_cut(tmp_path):
    model = loaded(tmp_path, TEMPLATE)
    answers = continuations(model, [Prompt("long", "word " * 400), PROMPTS[0]], FEW)
    assert {answer.error for answer in answers[0]} == {"the prompt does not fit the model's context"}
    assert all(answer.text is not None and not answer.truncated for answer in answers[1])


def test_chats_are_continued_the_same_in_any_order(tmp_path):
    model = loaded(tmp_path, TEMPLATE)
    assert continuations(model, PROMPTS, FEW) == continuations(model, PROMPTS[::-1], FEW)[::-1]


def test_settings_of_a_chat_come_back_from_their_parameters():
    assert isinstance(settings_of({"instruction": "Go on.", "k": 3}), ChatSettings)
    assert not isinstance(settings_of({"k": 3}), ChatSettings)


def test_after_a_time_limit_the_process_listens_to_the_alarm_as_before():
    def own(_number, _frame):
        pass

    earlier = signal.signal(signal.SIGALRM, own)
    try:
        with chat.time_limit(60):
            assert signal.getsignal(signal.SIGALRM) is not own
        assert signal.getsignal(signal.SIGALRM) is own
        assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
    finally:
        signal.signal(signal.SIGALRM, earlier)


def test_a_model_without_a_template_is_not_spoken_to(tmp_path):
    model = loaded(tmp_path, TEMPLATE)
    model.tokenizer.chat_template = None
    with pytest.raises(ModelRefused, match="has no chat template: enter the model as raw text, or use a revision that"):
        chat.find_format(model, CHAT_PROTOCOLS["rtp-chat"])


def test_a_prompt_of_a_token_without_an_embedding_keeps_its_place(tmp_path):
    model = loaded(tmp_path, TEMPLATE)
    model = replace(model, architecture=replace(model.architecture, vocabulary=3))
    (encoding,) = chat.encode_chats(model, [Prompt("a", "The river")], ChatSettings(k=1, max_new_tokens=2))
    assert (encoding.ids, encoding.error) == ([], "the prompt has a token that the model has no embedding for")


def test_a_template_that_takes_too_long_is_stopped():
    words = r"the chat template takes longer than 0\.02 s: correct it in tokenizer_config"
    with pytest.raises(ModelRefused, match=words), chat.time_limit(0.02):
        signal.pause()
    with chat.time_limit(20):
        pass
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
