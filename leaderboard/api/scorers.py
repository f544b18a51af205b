"""The scorers, and how right each is on texts that people labelled."""

from datetime import datetime
from typing import Annotated, Any

from django.http import HttpRequest
from django.urls import reverse
from ninja import Path, Schema
from ninja.pagination import paginate
from pydantic import Field

from leaderboard.api.problems import ANY
from leaderboard.api.reading import TEXT, Pages, reading_router
from leaderboard.queries.report_cards import ListedScorer, list_scorers
from scoring.refusals import Missing

router = reading_router("Scorers")
ScorerName = Annotated[
    str, Path(pattern=TEXT, max_length=200, description="Of a scorer, as a metric names it.", examples=["profanity"])
]


class ScorerItem(Schema):
    """A scorer that metrics ask."""

    name: str
    title: str
    metrics: list[str] = Field(description="The slugs of the metrics that ask it.")
    condition: str = Field(description="What its last check says; never where there was none.")
    retired_at: datetime | None
    texts_a_second: float | None = Field(description="As calibrated on the most texts; null where nobody measured it.")
    machine: str = Field(description="What that was measured on.")
    usd_per_1000_texts: float | None = Field(
        description="As declared; null where it runs on this board's workers, or nobody declared it."
    )
    sets: list[str] = Field(description="The labelled texts that it has report cards on.")
    url: str

    @staticmethod
    def resolve_metrics(scorer: ListedScorer) -> list[str]:
        return [metric.slug for metric in scorer.metrics]

    @staticmethod
    def resolve_condition(scorer: ListedScorer) -> str:
        return scorer.watched[0].condition.key

    @staticmethod
    def resolve_retired_at(scorer: ListedScorer) -> datetime | None:
        return scorer.retirement.retired_at if scorer.retirement else None

    @staticmethod
    def resolve_texts_a_second(scorer: ListedScorer) -> float | None:
        return scorer.timed.texts_a_second if scorer.timed else None

    @staticmethod
    def resolve_machine(scorer: ListedScorer) -> str:
        return scorer.timed.machine if scorer.timed else ""

    @staticmethod
    def resolve_usd_per_1000_texts(scorer: ListedScorer) -> float | None:
        usd = scorer.cost.usd if scorer.cost else None
        return None if usd is None else 1000 * usd

    @staticmethod
    def resolve_sets(scorer: ListedScorer) -> list[str]:
        return [str(calibration.evaluation_set) for calibration in scorer.calibrations]

    @staticmethod
    def resolve_url(scorer: ListedScorer, context: dict[str, Any]) -> str:
        return str(context["request"].build_absolute_uri(reverse("scorer", args=[scorer.name])))


class CalibrationCards(Schema):
    """A scorer on one set of labelled texts: its report card for each of its harms."""

    set: str
    title: str
    licence: str
    source: str
    languages: dict[str, int] = Field(description="Texts by the code of their language.")
    version: int = Field(description="Of the metric whose scorer it was.")
    metric: str
    fingerprint: str = Field(description="Of the scorer as it was.")
    finished_at: datetime | None = Field(
        description="When the texts had been scored; null while they are scored again, which keeps the cards so far."
    )
    texts_a_second: float | None
    machine: str
    cards: dict[str, dict[str, Any]] = Field(
        description="By attribute: shares and areas with the ends of their 95% intervals and the texts behind them."
    )

    @staticmethod
    def resolve_set(calibration: Any) -> str:
        return str(calibration.evaluation_set)

    @staticmethod
    def resolve_title(calibration: Any) -> str:
        return str(calibration.evaluation_set.title)

    @staticmethod
    def resolve_licence(calibration: Any) -> str:
        return str(calibration.evaluation_set.licence)

    @staticmethod
    def resolve_source(calibration: Any) -> str:
        return str(calibration.evaluation_set.source or calibration.evaluation_set.citation)

    @staticmethod
    def resolve_languages(calibration: Any) -> dict[str, int]:
        return dict(calibration.evaluation_set.languages)

    @staticmethod
    def resolve_version(calibration: Any) -> int:
        return int(calibration.metric_version.number)

    @staticmethod
    def resolve_metric(calibration: Any) -> str:
        return str(calibration.metric_version.metric.slug)


class WholeScorer(ScorerItem):
    """A scorer with its report cards."""

    limits: list[str] = Field(description="What its scores do not tell.")
    calibrations: list[CalibrationCards]


@router.get("/scorers", response={200: list[ScorerItem], **ANY}, summary="Scorers", operation_id="scorers")
@paginate(Pages)
def scorers(request: HttpRequest) -> list[ListedScorer]:
    """Every scorer that a metric asks, those with report cards first."""
    return list_scorers()


@router.get(
    "/scorers/{path:name}", response={200: WholeScorer, **ANY}, summary="A scorer's report cards", operation_id="scorer"
)
def scorer(request: HttpRequest, name: ScorerName) -> ListedScorer:
    """How right a scorer is on each set of labelled texts, its newest report cards."""
    listed_scorer = next((one for one in list_scorers() if one.name == name), None)
    if listed_scorer is None:
        raise Missing(f"name = {name!r}: no metric of this board asks such a scorer", field="name", value=name)
    return listed_scorer
