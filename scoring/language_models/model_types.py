"""Which types of transformers' models are scored here: what a test found for each, as data."""

import csv
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import NamedTuple

TABLE = Path(__file__).with_name("model_types.csv")


class TypeVerdict(NamedTuple):
    """Of a type: its likelihood (`causal` or `masked`), its class, whether its models enter, and if not, why."""

    likelihood: str
    name: str
    class_name: str
    accepted: bool
    reason: str


def read_model_types() -> list[TypeVerdict]:
    """Every type that transformers maps to a causal or a masked language model, by likelihood and name."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        return [
            TypeVerdict(likelihood, name, class_name, answer == "yes", reason)
            for likelihood, name, class_name, answer, reason in islice(csv.reader(file), 1, None)
        ]


def write_model_types(verdicts: Iterable[TypeVerdict]) -> None:
    """Write the table anew."""
    with TABLE.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(TypeVerdict._fields)
        writer.writerows((*verdict[:3], "yes" if verdict.accepted else "no", verdict.reason) for verdict in verdicts)
