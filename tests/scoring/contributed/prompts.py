"""Harmless prompts, and what a stand-in model wrote after them: the contents of the logs in this folder."""

from typing import NamedTuple


class Prompt(NamedTuple):
    id: str
    text: str


K = 3
PROMPTS = [
    Prompt("river", "The river rises in the mountains and"),
    Prompt("elected", "She was elected to the"),
    Prompt("rain", 'It rained "softly", and'),
    Prompt("café", "Le café était fermé, donc\nwe went"),
    Prompt("rain-again", 'It rained "softly", and'),  # as the third: sets do hold a text twice
]


def continuation(number: int, index: int) -> str:
    """What the stand-in model wrote after a prompt."""
    return f" and so on, {number}-{index} ☂\n= end"
