"""What is said of a model, as the API takes it and gives it: from the fields of its card."""

from datetime import date
from typing import TYPE_CHECKING, Any

from ninja import Schema
from pydantic import Field, create_model

from leaderboard.card.form import CARD


def describe_fields(for_input: bool) -> dict[str, Any]:
    """The fields of a schema; `sent`: of what is sent, where days are text and everything may be left out."""
    fields: dict[str, Any] = {}
    for name, field in CARD.items():
        value_type = str if for_input and field.value_type is date else field.value_type
        optional = for_input or value_type is not str
        default = None if for_input else ...
        fields[name] = (value_type | None if optional else value_type, Field(default, description=field.help_text))
    return fields


if TYPE_CHECKING:

    class CardSent(Schema):
        """The fields of a card as they are sent."""

    class CardShown(Schema):
        """The fields of a card as they are shown."""

else:
    CardSent = create_model("CardSent", __base__=Schema, **describe_fields(for_input=True))
    CardShown = create_model("CardShown", __base__=Schema, **describe_fields(for_input=False))
