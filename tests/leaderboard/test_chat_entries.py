"""Entries that are prompted as a chat, beside those of raw text."""

import hashlib

import pytest

from leaderboard.models import LanguageModel
from leaderboard.services.language_models import add_model
from scoring.language_models import BUNDLED, ModelRefused
from tests.chatting import SMALLEST, TEMPLATE, chat_model

pytestmark = pytest.mark.django_db


def test_a_model_has_an_entry_for_each_interface(tmp_path):
    folder = str(chat_model(tmp_path / "tuned"))
    text, _ = add_model(folder)
    chat, new = add_model(folder, interface="chat")
    assert new
    assert not add_model(folder, interface="chat")[1]
    assert (text.revision, text.interface, chat.interface) == (chat.revision, "text", "chat")
    assert (text.slug, chat.slug) == ("tuned", "tuned-chat")
    assert chat.chat_template == text.chat_template == hashlib.sha256(TEMPLATE.encode()).hexdigest()


def test_a_model_without_a_chat_template_has_no_chat_entry():
    with pytest.raises(ModelRefused, match="has no chat template, so nothing says how it is spoken to"):
        add_model(str(BUNDLED / SMALLEST), interface="chat")
    assert not LanguageModel.objects.exists()
