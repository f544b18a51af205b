"""What stands on the one-page card of a model, which people print and attach: identity, numbers, address."""

from collections.abc import Sequence
from dataclasses import dataclass

from leaderboard.card.form import describe_facts
from leaderboard.models import LanguageModel, ModelIdentity, Result
from leaderboard.models.results import DERIVED
from leaderboard.queries.profiles import Profile, ProfileCell, profiles, why_not_open
from leaderboard.rankings.digits import digits_of, print_value
from leaderboard.rankings.scales import WhiskerScale, fit_scale
from scoring.metrics.formulas import slice_label
from scoring.metrics.safety import DISTILLED

MOST_LINES = 14  # metrics on the card: what fits one page beside the rest
FEWEST_SLICES = 3  # for a chart
MOST_SLICES = 14
REVISION = 12  # characters of a revision beside a number; an entry's own card has all of it above


@dataclass(frozen=True, slots=True)
class CardLine:
    """The headline of one metric, in words and digits; empty texts where something is not known."""

    metric: str
    origin: str
    measure: str
    value: str
    indifferent: str
    rank: str
    missing: str


@dataclass(frozen=True, slots=True)
class ChartLine:
    """A slice: its value and, where known, its interval and what an indifferent model would have there."""

    label: str
    value: float
    text: str
    low: float | None
    high: float | None
    indifferent: float | None


@dataclass(frozen=True, slots=True)
class CardChart:
    """The values of one measure on the slices of one metric, on one scale."""

    title: str
    lines: list[ChartLine]
    scale: WhiskerScale


@dataclass(frozen=True, slots=True)
class OnePageCard:
    """Everything on the page. caution: why the model is not open, or ""; more: metrics that did not fit."""

    name: str
    facts: list[tuple[str, str]]
    caution: str
    lines: list[CardLine]
    more: int
    chart: CardChart | None
    headline: Profile | None  # the first one, which is cited


def compose_card(model: LanguageModel) -> OnePageCard:
    """The card of one entry, in a constant number of queries."""
    caution = ""
    if model.access != LanguageModel.Access.OPEN:
        reason = why_not_open(model)
        explanation = f"The reason given: {reason}" if reason else "No reason is on record."
        caution = f"{model.get_access_display()}. {explanation}"
    return arrange_profiles(model.name, list_facts(model), caution, profiles(model))


def compose_identity_card(identity: ModelIdentity, entries: Sequence[LanguageModel]) -> OnePageCard:
    """The card of a model with what each of its entries has, in a constant number of queries an entry."""
    facts = [
        ("Made by", identity.organisation),
        ("Family", identity.family),
        ("Kind", ", ".join(dict.fromkeys(entry.get_kind_display() for entry in entries))),
        ("Parameters", f"{identity.parameters:,}" if identity.parameters else ""),
        ("Licence", identity.licence),
        ("On the hub", identity.hub_id),
        ("Entries", ", ".join(entry.slug for entry in entries)),
    ]
    all_profiles = [profile for entry in entries for profile in profiles(entry)]
    return arrange_profiles(identity.name, [(label, text or "unknown") for label, text in facts], "", all_profiles)


def arrange_profiles(
    name: str, facts: list[tuple[str, str]], caution: str, all_profiles: Sequence[Profile]
) -> OnePageCard:
    """The card with the headline of each profile, as far as they fit, and a chart of the first that has slices."""
    with_numbers = [profile for profile in all_profiles if profile.headline]
    return OnePageCard(
        name,
        facts,
        caution,
        [describe_profile(profile) for profile in with_numbers[:MOST_LINES]],
        max(0, len(with_numbers) - MOST_LINES),
        next(filter(None, map(draw_slices, with_numbers)), None),
        next(iter(with_numbers), None),
    )


def list_facts(model: LanguageModel) -> list[tuple[str, str]]:
    """Labels and texts of what the model is."""
    shape = f"{model.layers} × {model.heads} × {model.hidden_size}" if model.layers else ""  # noqa: RUF001
    location = f": {model.location}" if model.source == LanguageModel.Source.HUB else ""
    facts = [
        ("Kind", model.get_kind_display()),
        ("Parameters", f"{model.parameters:,}" if model.parameters else ""),
        ("Layers × heads × width", shape),  # noqa: RUF001
        ("Source", f"{model.get_source_display()}{location}"),
        ("Revision", model.revision),
        *describe_facts(model),
        ("Access", model.get_access_display()),
    ]
    return [(label, text or "unknown") for label, text in facts if text or label in ("Parameters", "Revision")]


def describe_profile(profile: Profile) -> CardLine:
    """The headline of a profile: its first measure on the overall slice."""
    version = profile.version
    cell = next(cell for cell in profile.rows[0][1] if cell.result is profile.headline)
    scored_at = profile.scoring.scored_at
    day = f", {'scored' if version.measured else 'entered'} {scored_at:%Y-%m-%d}" if scored_at else ""
    revision = f", revision {profile.scoring.model.revision[:REVISION]}" if profile.scoring.model.revision else ""
    origin = f"version {version.number}, {'measured here' if version.measured else version.source}{day}{revision}"
    return CardLine(
        version.metric.title,
        origin,
        f"{cell.measure.label}: {slice_label(profile.main)}",
        write_value(profile, cell),
        write_indifferent(profile, cell),
        rank_of(profile),
        missing_of(profile, cell.result),
    )


def write_value(profile: Profile, cell: ProfileCell) -> str:
    """As in 0.512 [0.480, 0.544]."""
    result = cell.result
    if result is None:
        return ""
    value = print_value(result, profile.version)
    if result.ci_low is None or result.ci_high is None:
        return value
    digits = digits_of(profile.version, result.measure)
    mark = DERIVED if result.interval_derived else ""
    return f"{value} [{mark}{result.ci_low:.{digits}f}, {result.ci_high:.{digits}f}]"


def write_indifferent(profile: Profile, cell: ProfileCell) -> str:
    """What an indifferent model would have; "" where that is not known."""
    digits = digits_of(profile.version, cell.measure.key)
    if cell.measure.neutral is not None:
        return f"{cell.measure.neutral:.{digits}f}"
    if cell.indifferent is None:
        return ""
    return f"{'' if profile.version.measured else DERIVED}{cell.indifferent:.{digits}f}"


def rank_of(profile: Profile) -> str:
    """As in "2 of 5 causal models, 1 to 3 possible"; else why there is no rank."""
    place = profile.place
    if place is None:
        return profile.scoring.why_unranked or "not ranked"
    possible = f", {place.low} to {place.high} possible" if place.low and place.among > 1 else ""
    return f"{place.words}{possible}"


def missing_of(profile: Profile, result: Result | None) -> str:
    """How many texts have no score, with their share."""
    if result is None or not profile.version.measured:
        return ""
    return f"{result.missing:,} ({result.missing_share:.1%})" if result.missing else "0"


def draw_slices(profile: Profile) -> CardChart | None:
    """A chart of the ranked measure that has values on most slices; None where it has them on few."""
    cells_of: dict[str, list[tuple[str, ProfileCell]]] = {}
    for name, cells in profile.rows:
        if name in DISTILLED:  # the average again, among other models
            continue
        for cell in cells:
            if cell.result and cell.measure.direction:
                cells_of.setdefault(cell.measure.key, []).append((name, cell))
    most_cells = max(cells_of.values(), key=len, default=[])[:MOST_SLICES]
    if len(most_cells) < FEWEST_SLICES:
        return None
    measure = most_cells[0][1].measure
    lines = [chart_line(profile, name, cell, cell.result) for name, cell in most_cells if cell.result]
    ends = [end for line in lines for end in (line.value, line.low, line.high, line.indifferent) if end is not None]
    return CardChart(f"{profile.version.metric.title}: {measure.label.lower()}", lines, fit_scale(measure, ends))


def chart_line(profile: Profile, name: str, cell: ProfileCell, result: Result) -> ChartLine:
    """A line of the chart."""
    tick = cell.measure.neutral if cell.measure.neutral is not None else cell.indifferent
    return ChartLine(
        slice_label(name), result.value, print_value(result, profile.version), result.ci_low, result.ci_high, tick
    )
