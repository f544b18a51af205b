"""What is ranked."""

from datetime import datetime
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest
from ninja.pagination import paginate
from pydantic import Field

from leaderboard.api.cards import CardShown
from leaderboard.api.problems import ANY
from leaderboard.api.reading import ModelSlug, Pages, parameter, reading_router, text
from leaderboard.models import LanguageModel
from leaderboard.models.language_models import Access, ModelKind, Source
from leaderboard.rankings.view import match_words
from scoring.refusals import Missing

router = reading_router("Models")


class Model(CardShown):
    """One revision of one model."""

    slug: str
    kind: ModelKind
    source: Source
    hub_id: str | None
    revision: str = Field(description="The commit or hash of exactly the weights that were run; empty for papers.")
    parameters: int | None
    layers: int | None
    heads: int | None
    hidden_size: int | None
    access: Access
    created_at: datetime
    url: str = Field(description="Its page.")

    @staticmethod
    def resolve_hub_id(model: LanguageModel) -> str | None:
        """Folders and addresses of servers are the operators' own."""
        return model.location if model.source == Source.HUB else None

    @staticmethod
    def resolve_url(model: LanguageModel, context: dict[str, Any]) -> str:
        return str(context["request"].build_absolute_uri(model.get_absolute_url()))


@router.get("/models", response={200: list[Model], **ANY}, summary="Models", operation_id="models")
@paginate(Pages)
def models(
    request: HttpRequest,
    search: str | None = text("Words, each in the name, the family or the slug."),
    family: str | None = text("Exactly that family."),
    kind: ModelKind | None = parameter("How the model gives probabilities to texts."),
    source: Source | None = parameter("Where it comes from."),
    access: Access | None = parameter("Whether it may be run and ranked."),
) -> QuerySet[LanguageModel]:
    """Every model of the board, by name. Filters hold all at once."""
    exact = {"family": family, "kind": kind, "source": source, "access": access}
    matches = LanguageModel.objects.listed().filter(match_words(search or ""))
    return matches.filter(**{name: value for name, value in exact.items() if value is not None})


@router.get("/models/{slug}", response={200: Model, **ANY}, summary="A model", operation_id="model")
def model(request: HttpRequest, slug: ModelSlug) -> LanguageModel:
    """One model, by its slug."""
    return find_model(slug)


def find_model(slug: str) -> LanguageModel:
    """The model of that slug. Raises Missing."""
    model = LanguageModel.objects.listed().filter(slug=slug).first()
    if model is None:
        raise Missing(
            f"There is no model {slug!r}.",
            field="slug",
            value=slug,
            remedy="GET /api/v1/models?search=... finds slugs.",
        )
    return model
