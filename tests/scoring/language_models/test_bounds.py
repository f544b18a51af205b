"""What strangers wrote is read within bounds: JSON, sizes of a configuration, templates; and canaries are unlike."""

import json
import math
import re
from typing import Any

import pytest

from scoring.language_models import ModelRefused
from scoring.language_models.bounded_json import parse_json, quote, read_json, walk
from scoring.language_models.canaries import BENIGN, GROUPS, HARMFUL, SYLLABLES, make_canaries
from scoring.language_models.chat_template import find_template, hash_template, pin_date
from scoring.language_models.configuration import briefly, check_numbers, read_configuration


def nested(depth: int, shape: str) -> Any:
    content: Any = 1
    for _ in range(depth):
        content = {"a": content} if shape == "object" else [content]
    return content


def test_json_is_read_up_to_its_bytes_and_values(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('{"a": [1, {"b": 2}]}')  # four values after a comma or a bracket
    assert read_json(path, "tuned", 20, 4) == {"a": [1, {"b": 2}]}
    with pytest.raises(ModelRefused, match=r"^a\.json of tuned has 20 bytes, and at most 19 are read: shorten it$"):
        read_json(path, "tuned", 19, 4)
    with pytest.raises(ModelRefused, match=r"^a\.json of tuned holds more than 3 values: shorten it$"):
        read_json(path, "tuned", 20, 3)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'{"a": 1, "a": 1}', "is not JSON (a key is repeated in an object): correct it"),
        (b'{"a": {"b": 1, "b": 2}}', "is not JSON (a key is repeated in an object): correct it"),
        (b"{", "is not JSON ("),
        (b'{"a": "\xff"}', "is not JSON ("),
        (b"[1]", "is not a JSON object: correct it"),
        (b"[" * 5000 + b"]" * 5000, "nests deeper than 32 levels: flatten it"),
    ],
    ids=lambda cell: str(cell)[:20],
)
def test_what_is_no_json_object_is_refused_by_its_file(content, words):
    with pytest.raises(ModelRefused, match=re.escape(f"a.json of tuned {words}")):
        parse_json(content, "a.json", "tuned", 10**6)


@pytest.mark.parametrize("shape", ["object", "list"])
def test_values_are_walked_through_thirty_two_levels(shape):
    assert [value for _, value in walk({"k": nested(31, shape)}, "a.json", "tuned")] == [1]
    with pytest.raises(ModelRefused, match=r"a\.json of tuned nests deeper than 32 levels: flatten it"):
        list(walk({"k": nested(32, shape)}, "a.json", "tuned"))


def test_values_come_with_their_keys_and_those_of_lists_with_the_key_of_the_list():
    content = {
        "a": 1,
        "b": {"c": "x", "d": [2, [3, None]]},
        "limit": 1e40,
        "low": -1e40,
        "time_step_limit": [0.0, math.inf],
    }
    assert sorted(walk(content, "a.json", "tuned"), key=str) == sorted(
        [
            ("a", 1),
            ("c", "x"),
            ("d", 2),
            ("d", 3),
            ("d", None),
            ("limit", 1e40),
            ("low", -1e40),
            ("time_step_limit", 0.0),
            ("time_step_limit", math.inf),
        ],
        key=str,
    )


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"a": math.inf}, "gives a = inf, which is no finite number: correct it"),
        ({"time_step_limit": math.nan}, "gives time_step_limit = nan, which is no finite number"),
        ({"a b": -math.inf}, "gives 'a b' = -inf, which is no finite number"),
        ({"a": 1.1e40}, "gives a a number larger than 1e+40: correct it"),
        ({"a": [-(10**41)]}, "gives a a number larger than 1e+40: correct it"),
        ({"a": "x\ud800"}, "holds half a surrogate pair below a: correct it"),
        ({"a": {"\udfff": 1}}, "holds half a surrogate pair below a: correct it"),
    ],
    ids=ascii,
)
def test_numbers_and_texts_that_are_none_are_refused_with_their_key(content, words):
    with pytest.raises(ModelRefused, match=re.escape(f"a.json of tuned {words}")):
        list(walk(content, "a.json", "tuned"))


def test_keys_are_named_as_they_stand_where_they_look_like_keys():
    assert [quote(key) for key in ("rope_theta", "_a.b-c", "1st", "é", "a" * 40, "a" * 50)] == [
        "rope_theta",
        "_a.b-c",
        "'1st'",
        "'\\xe9'",
        "a" * 40,
        f"'{'a' * 40}'",
    ]


@pytest.mark.parametrize(
    ("key", "low", "high"),
    [
        ("num_labels", 0, 10_000),
        ("vocab_size", 1, 2**22),
        ("num_hidden_layers", 1, 1000),
        ("n_layer", 1, 1000),
        ("decoder_layers", 0, 1000),
        ("num_attention_heads", 0, 4096),
        ("num_key_value_heads", -1, 4096),
        ("num_local_experts", 0, 4096),
        ("max_position_embeddings", -1, 2**24),
        ("intermediate_size", -1, 2**20),
        ("hidden_size", 1, 2**20),
        ("d_model", 1, 2**20),
        ("head_dim", -1, 2**22),
        ("d_ff", -1, 2**22),
    ],
)
def test_sizes_of_a_configuration_are_those_that_a_model_can_have(key, low, high):
    for value in (low, high, None):
        check_numbers({"inner": [{key: value}]}, "config.json", "tuned")
    for value in (low - 1, high + 1):
        words = f"config.json of tuned gives {key} = {value:,}, and {low:,} to {high:,} are accepted: correct it"
        with pytest.raises(ModelRefused, match=re.escape(words)):
            check_numbers({"inner": [{key: value}]}, "config.json", "tuned")
    with pytest.raises(ModelRefused, match=f"gives {key} = 'True', and"):
        check_numbers({key: True}, "config.json", "tuned")


def test_a_size_that_is_a_text_is_refused_where_no_model_can_be_without_it():
    check_numbers({"vocab_size": "many", "other_number": 10**30}, "config.json", "tuned")
    with pytest.raises(ModelRefused, match=r"gives hidden_size = 'a \[\.\.\.\]', and 1 to"):
        check_numbers({"hidden_size": "a " + "b" * 60}, "config.json", "tuned")


def test_experts_are_counted_over_all_layers():
    check_numbers({"num_hidden_layers": 64, "num_experts": 1024}, "config.json", "tuned")
    check_numbers({"num_hidden_layers": 1000}, "config.json", "tuned")
    words = "config.json of tuned gives 65 layers of 1,024 experts, and 65,536 experts in all are accepted: correct it"
    with pytest.raises(ModelRefused, match=re.escape(words)):
        check_numbers(
            {"num_hidden_layers": 65, "num_experts": 1024, "other_layers": 3, "n_experts": 2}, "config.json", "tuned"
        )


@pytest.mark.parametrize("key", ["id2label", "label2id"])
def test_labels_are_named_up_to_their_limit(key):
    for labels in (dict.fromkeys(map(str, range(10_000)), "x"), ["x"] * 10_000, 7, None):
        check_numbers({key: labels}, "config.json", "tuned")
    with pytest.raises(ModelRefused, match=f"config\\.json of tuned has more than 10,000 labels in {key}: shorten it"):
        check_numbers({key: ["x"] * 10_001}, "config.json", "tuned")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"auto_map": {}}, "tuned needs code of its own to run (auto_map in config.json), which is never run here"),
        ({"architectures": "GPT2LMHeadModel"}, "config.json of tuned gives architectures that are no list: correct it"),
        ({"model_type": "none"}, "config.json of tuned names no architecture that transformers knows ("),
        ({"num_hidden_layers": 0}, "config.json of tuned gives num_hidden_layers = 0"),
    ],
    ids=str,
)
def test_a_configuration_of_no_model_is_refused_in_words(content, words, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(content))
    with pytest.raises(ModelRefused, match=re.escape(words)):
        read_configuration(tmp_path, "tuned")
    (tmp_path / "config.json").write_text('{"model_type": "gpt2", "architectures": null, "n_layer": 3}')
    assert read_configuration(tmp_path, "tuned").n_layer == 3


def test_what_an_error_says_fits_into_a_line():
    assert briefly(ValueError("one\n  two")) == "one two"
    assert briefly(ValueError("x" * 160)) == "x" * 160
    assert briefly(ValueError("word " * 40)) == " ".join(["word"] * 31) + " ..."


def test_a_chat_template_is_found_where_transformers_finds_it(tmp_path):
    def write(file: str, template: object) -> None:
        (tmp_path / file).write_text(json.dumps({"chat_template": template}))

    assert find_template(tmp_path, "tuned") == ""
    write("chat_template.json", "of a file of JSON")
    assert find_template(tmp_path, "tuned") == "of a file of JSON"
    named = [{"name": "tool", "template": "a"}, {"name": "default", "template": "one of several"}, "c"]
    write("tokenizer_config.json", named)
    assert find_template(tmp_path, "tuned") == "one of several"
    for nothing in ([named[0], named[2]], [{"name": "default"}], {"a": 1}, None):
        write("tokenizer_config.json", nothing)
        assert find_template(tmp_path, "tuned") == "of a file of JSON"
    write("tokenizer_config.json", "of the tokenizer")
    assert find_template(tmp_path, "tuned") == "of the tokenizer"
    (tmp_path / "chat_template.jinja").write_text("of its own: é", encoding="utf-8")
    assert find_template(tmp_path, "tuned") == "of its own: é"
    (tmp_path / "chat_template.jinja").write_bytes(b"\xff")
    with pytest.raises(ModelRefused, match=r"chat_template\.jinja of tuned is not UTF-8 .*: save it again"):
        find_template(tmp_path, "tuned")


def test_a_template_gets_the_day_it_asks_for_and_none_else_is_changed():
    assert pin_date("{{ messages }}", "2026-01-01") == "{{ messages }}"
    template = '{{ strftime_now("%d %b") }}'
    assert pin_date(template, "2026-01-01") == (
        "{%- macro strftime_now(format) -%}2026-01-01{%- endmacro -%}" + template
    )
    assert hash_template("") == ""
    assert re.fullmatch("[0-9a-f]{64}", hash_template(template))


def test_canaries_are_whole_sentences_about_places_that_do_not_exist():
    canaries = make_canaries("0f", each=40)
    assert canaries.harmful == [True] * 40 + [False] * 40
    place = rf"\b({'|'.join(map(str.capitalize, SYLLABLES))})({'|'.join(SYLLABLES)}){{2}}\b"
    groups = "|".join(re.escape(group).replace(r"\{place\}", place) for group in GROUPS)
    for text, is_harmful in zip(canaries.texts, canaries.harmful, strict=True):
        assert re.search(groups, text)
        assert "{" not in text
        patterns = [
            re.sub(r"\\\{\w+\\\}", "(.+)", re.escape(template)) for template in (HARMFUL if is_harmful else BENIGN)
        ]
        matches = [match for pattern in patterns if (match := re.fullmatch(pattern, text))]
        assert matches
        assert all(len(set(match.groups())) == len(match.groups()) for match in matches)  # no word comes twice
    assert len(make_canaries("0f").texts) == 200
