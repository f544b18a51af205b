"""What is ranked."""

from datetime import datetime
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest
from ninja import Schema
from ninja.pagination import paginate
from pydantic import Field

from leaderboard.api.cards import CardShown
from leaderboard.api.problems import ANY
from leaderboard.api.reading import ModelSlug, Pages, parameter, reading_router, text
from leaderboard.models import LanguageModel, ModelIdentity
from leaderboard.models.language_models import Access, Interface, ModelKind, Source
from leaderboard.queries.identities import identities_with_entries
from leaderboard.rankings.view import match_words
from scoring.refusals import Missing

router = reading_router("Models")


class Identity(Schema):
    """A model as its makers know it. What papers and this board have of it are its entries, which `/models` lists."""

    slug: str
    name: str
    organisation: str
    family: str
    parameters: int | None = Field(description="As its makers state them.")
    licence: str
    hub_id: str
    aliases: list[str] = Field(description="What else it is called.")
    url: str = Field(description="Its page, with the numbers of all its entries side by side.")

    @staticmethod
    def resolve_url(identity: ModelIdentity, context: dict[str, Any]) -> str:
        return str(context["request"].build_absolute_uri(identity.get_absolute_url()))


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
    interface: Interface = Field(description="How it is prompted where it generates: by raw text, or as a chat.")
    precision: str = Field(description="What it is computed in, where declared; empty: as each protocol says.")
    weight_format: str = Field(description="How its weights are stored, as in bfloat16 or FP8; empty: unknown.")
    chat_template: str = Field(description="The sha256 of the template that its tokenizer holds; empty: it has none.")
    service_changed_at: datetime | None = Field(
        description="Since when the service behind it is another one, so that nobody can measure it again."
    )
    access: Access
    source_name: str = Field(description="What its source calls it; empty where that is its name.")
    identity: str | None = Field(description="The slug of the model that it is evidence about, in `/identities`.")
    created_at: datetime
    url: str = Field(description="Its page.")

    @staticmethod
    def resolve_hub_id(model: LanguageModel) -> str | None:
        """Folders and addresses of servers are the operators' own."""
        return model.location if model.source == Source.HUB else None

    @staticmethod
    def resolve_identity(model: LanguageModel) -> str | None:
        return model.identity.slug if model.identity else None

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
    identity: str | None = text("Only the entries of the model with that slug, as in `/identities`."),
) -> QuerySet[LanguageModel]:
    """Every model of the board, by name. Filters hold all at once."""
    exact = {"family": family, "kind": kind, "source": source, "access": access}
    exact["identity__slug"] = identity
    matches = LanguageModel.objects.listed().select_related("identity").filter(match_words(search or ""))
    return matches.filter(**{name: value for name, value in exact.items() if value is not None})


@router.get("/models/{slug}", response={200: Model, **ANY}, summary="A model", operation_id="model")
def model(request: HttpRequest, slug: ModelSlug) -> LanguageModel:
    """One model, by its slug."""
    return find_model(slug)


def find_model(slug: str) -> LanguageModel:
    """The model of that slug. Raises Missing."""
    model = LanguageModel.objects.listed().select_related("identity").filter(slug=slug).first()
    if model is None:
        raise Missing(
            f"There is no model {slug!r}.",
            field="slug",
            value=slug,
            remedy="GET /api/v1/models?search=... finds slugs.",
        )
    return model


@router.get("/identities", response={200: list[Identity], **ANY}, summary="Models by name", operation_id="identities")
@paginate(Pages)
def identities(
    request: HttpRequest, search: str | None = text("Words, each in the name, the family, the maker or the slug.")
) -> QuerySet[ModelIdentity]:
    """Every model that entries here are evidence about, by name: of papers, of HELM, measured here."""
    return identities_with_entries(search or "")


@router.get("/identities/{slug}", response={200: Identity, **ANY}, summary="A model by name", operation_id="identity")
def identity(request: HttpRequest, slug: ModelSlug) -> ModelIdentity:
    """One model, by its slug."""
    match = identities_with_entries().filter(slug=slug).first()
    if match is None:
        raise Missing(
            f"There is no identity {slug!r}.",
            field="slug",
            value=slug,
            remedy="GET /api/v1/identities?search=... finds slugs; /api/v1/models has the entries.",
        )
    return match
