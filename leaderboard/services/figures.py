"""What sources publish: rows of the CSV files of `leaderboard/published/`, and figures of language models."""

import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from leaderboard.models import LanguageModel
from leaderboard.services.identities import declared_models, enter_identity, take_over
from scoring.statistics.area_bounds import conservative_interval

FOLDER = Path(__file__).parent.parent / "published"
PERCENT = Decimal(100)


@dataclass(frozen=True)
class Figure:
    """One published number; or `derived`, which its source does not print: worked out here from what it prints.

    ci_low to ci_high: its 95% interval, where the source prints one; or `interval_derived`, from counts.
    """

    model: str
    measure: str
    slice: str
    value: float
    n: int | None = None
    rank: int | None = None
    derived: bool = False
    ci_low: float | None = None
    ci_high: float | None = None
    interval_derived: bool = False


@dataclass(frozen=True)
class SourceFigures:
    """What one source prints of one metric.

    `slug` is that of a language model by its name in the figures; `models` enters them, and gives them by that name.
    """

    metric: str
    source: str
    figures: Callable[[], Iterator[Figure]]
    slug: Callable[[str], str]
    models: Callable[[], dict[str, LanguageModel]]
    decimals: int | None = None


def rows(name: str) -> list[dict[str, str]]:
    """The rows of a published file, values as printed."""
    with (FOLDER / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def estimate(model: str, measure: str, name: str, mean: str, margin: str, unit: Decimal = Decimal(1)) -> Figure:
    """A figure from a mean and half of its 95% interval as printed, on slice `name`; both are divided by `unit`."""
    value, half = Decimal(mean), Decimal(margin)
    ends = [float(end / unit) for end in (value - half, value + half)]
    return Figure(model, measure, name, float(value / unit), ci_low=ends[0], ci_high=ends[1])


def bound_area(model: str, measure: str, name: str, area: float, positives: int, negatives: int) -> Figure:
    """A figure that is an area, printed without an interval: with a conservative one from the counts of texts."""
    low, high = conservative_interval(area, positives, negatives)
    texts = positives + negatives
    return Figure(model, measure, name, area, texts, ci_low=float(low), ci_high=float(high), interval_derived=True)


def enter_model(
    slug: str,
    name: str,
    family: str,
    kind: str,
    *,
    layers: int | None = None,
    heads: int | None = None,
    hidden_size: int | None = None,
    parameters: int | None = None,
) -> LanguageModel:
    """The entry of that slug, which its source calls `name`; entered where there is none, and joined to its model.

    One that was entered before gets what was not known of its architecture. One that no operator gave to another model
    gets the display name and the family of the declared one.
    """
    architecture = {"layers": layers, "heads": heads, "hidden_size": hidden_size, "parameters": parameters}
    model, is_new = LanguageModel.objects.get_or_create(
        slug=slug,
        defaults={
            "name": name,
            "family": family,
            "kind": kind,
            "source": LanguageModel.Source.PUBLISHED,
            **architecture,
        },
    )
    news = [field for field, value in architecture.items() if value is not None and getattr(model, field) is None]
    if not is_new:
        for field in news:
            setattr(model, field, architecture[field])
    if model.identity_id is None:
        news += join_declared(model, name)
    if news:
        model.save(update_fields=news)
    return model


def join_declared(model: LanguageModel, name: str) -> list[str]:
    """Make an entry one of the declared model that is called `name`, where there is one; not saved.

    Returns the fields that changed.
    """
    declaration = declared_models().get(name)
    if declaration is None:
        return []
    fields = take_over(model, enter_identity(declaration))
    model.family = declaration.family
    display_name = declaration.names.get(name, declaration.name)
    if model.name == name != display_name:
        model.name, model.source_name = display_name, name
    return list(dict.fromkeys([*fields, "family", "name", "source_name"]))
