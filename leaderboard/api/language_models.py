"""What is ranked."""

from datetime import datetime
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest
from ninja import Query, Schema
from ninja.pagination import paginate
from pydantic import Field

from leaderboard.api.problems import ANY, NotHere
from leaderboard.api.reading import ModelSlug, Pages, reading_router, text
from leaderboard.models import LanguageModel
from leaderboard.queries.ranking_view import searched

router = reading_router("Models")


class Model(Schema):
    """One revision of one model."""

    slug: str
    name: str
    family: str = Field(description="Empty where it is not known.")
    kind: LanguageModel.Kind
    source: LanguageModel.Source
    hub_id: str | None
    revision: str = Field(description="The commit or hash of exactly the weights that were run; empty for papers.")
    licence: str
    parameters: int | None
    layers: int | None
    heads: int | None
    hidden_size: int | None
    context: int | None = Field(description="The longest text, in tokens.")
    access: LanguageModel.Access
    created_at: datetime
    url: str = Field(description="Its page.")

    @staticmethod
    def resolve_hub_id(model: LanguageModel) -> str | None:
        """Folders and addresses of servers are the operators' own."""
        return model.location if model.source == LanguageModel.Source.HUB else None

    @staticmethod
    def resolve_url(model: LanguageModel, context: dict[str, Any]) -> str:
        return str(context["request"].build_absolute_uri(model.get_absolute_url()))


@router.get("/models", response={200: list[Model], **ANY}, summary="Models", operation_id="models")
@paginate(Pages)
def models(
    request: HttpRequest,
    search: str | None = text("Words, each in the name, the family or the slug."),
    family: str | None = text("Exactly that family."),
    kind: LanguageModel.Kind | None = Query(None, description="How the model gives probabilities to texts."),
    source: LanguageModel.Source | None = Query(None, description="Where it comes from."),
    access: LanguageModel.Access | None = Query(None, description="Whether it may be run and ranked."),
) -> QuerySet[LanguageModel]:
    """Every model of the board, by name. Filters hold all at once."""
    exact = {"family": family, "kind": kind, "source": source, "access": access}
    found = LanguageModel.objects.listed().filter(searched(search or ""))
    return found.filter(**{name: value for name, value in exact.items() if value is not None})


@router.get("/models/{slug}", response={200: Model, **ANY}, summary="A model", operation_id="model")
def model(request: HttpRequest, slug: ModelSlug) -> LanguageModel:
    """One model, by its slug."""
    return found_model(slug)


def found_model(slug: str) -> LanguageModel:
    """The model of that slug. Raises NotHere."""
    found = LanguageModel.objects.listed().filter(slug=slug).first()
    if found is None:
        raise NotHere("slug", slug, f"There is no model {slug!r}.", "GET /api/v1/models?search=... finds slugs.")
    return found
