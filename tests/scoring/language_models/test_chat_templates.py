"""Where a model's chat template is found, and by what hash it is known."""

import hashlib

import pytest
from gguf import GGUFWriter

from scoring.language_models import BUNDLED, load_files, resolve
from scoring.language_models.gguf_header import read_gguf_header
from tests.chatting import SMALLEST, TEMPLATE, chat_model

NAMED = [{"name": "tool_use", "template": "{{ tools }}"}, {"name": "default", "template": TEMPLATE}]


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize(
    ("template", "file"),
    [
        (TEMPLATE, "tokenizer_config.json"),
        (NAMED, "tokenizer_config.json"),
        (TEMPLATE, "chat_template.jinja"),
        (TEMPLATE, "chat_template.json"),
    ],
)
def test_a_template_is_found_where_models_keep_it_and_is_the_one_in_use(tmp_path, template, file):
    folder = chat_model(tmp_path / "model", template, file)
    assert resolve(str(folder)).chat_template == sha256(TEMPLATE)
    assert load_files(folder, "model").tokenizer.chat_template == TEMPLATE


def test_a_file_of_its_own_goes_before_the_configuration(tmp_path):
    folder = chat_model(tmp_path / "model", "{{ old }}")
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    assert resolve(str(folder)).chat_template == sha256(TEMPLATE)
    assert load_files(folder, "model").tokenizer.chat_template == TEMPLATE


def test_a_model_without_a_template_has_no_hash():
    resolved_model = resolve(str(BUNDLED / SMALLEST))
    assert (resolved_model.chat_template, resolved_model.has_chat_template) == ("", False)


def test_another_template_makes_another_revision(tmp_path):
    one, other = (
        resolve(str(chat_model(tmp_path / name, template))) for name, template in (("a", TEMPLATE), ("b", "{{ x }}"))
    )
    assert one.revision != other.revision
    assert one.chat_template != other.chat_template


@pytest.mark.parametrize("template", [TEMPLATE, ""])
def test_a_gguf_file_holds_its_template_and_its_licence_in_its_header(tmp_path, template):
    writer = GGUFWriter(tmp_path / "model.gguf", "llama")
    if template:
        writer.add_chat_template(template)
        writer.add_license("apache-2.0")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    header = read_gguf_header(tmp_path / "model.gguf")
    assert (header.chat_template, header.licence) == (template, "apache-2.0" if template else "")
