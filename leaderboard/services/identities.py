"""Which model an entry is evidence about: declared for published figures, by hub id, or as an operator decides."""

import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from itertools import chain, count
from pathlib import Path
from typing import Any, TypeVar

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.utils.text import slugify

from leaderboard.models import AuditVerb, LanguageModel, ModelIdentity
from leaderboard.services.audit import record
from leaderboard.services.locks import lock_model
from scoring.refusals import Refused

Row = TypeVar("Row")
FILE = Path(__file__).parent.parent / "published" / "models.toml"
SHARED = ("family", "parameters", "licence")  # what an entry takes over from its model


@dataclass(frozen=True, slots=True)
class DeclaredModel:
    """A model of `models.toml`. names: display names of entries that have one of their own, by their source's name."""

    slug: str
    name: str
    organisation: str
    family: str
    licence: str
    aliases: list[str]
    parameters: int | None = None
    hub_id: str = ""
    names: dict[str, str] = field(default_factory=dict)

    @property
    def row(self) -> dict[str, Any]:
        """The columns of its identity."""
        columns = ("name", "organisation", "family", "parameters", "licence", "hub_id", "aliases")
        return {name: getattr(self, name) for name in columns}


@cache
def declared_models() -> dict[str, DeclaredModel]:
    """The declared models by each of their names and aliases. Raises ValueError where two have the same."""
    models: dict[str, DeclaredModel] = {}
    for values in tomllib.loads(FILE.read_text(encoding="utf-8"))["models"]:
        declaration = DeclaredModel(**values)
        for name in dict.fromkeys((declaration.name, *declaration.aliases)):
            if name in models:
                raise ValueError(f"{FILE.name}: {declaration.slug} and {models[name].slug} are both called {name!r}")
            models[name] = declaration
    return models


def enter_identity(declaration: DeclaredModel) -> ModelIdentity:
    """The identity of a declared model, made where there is none. What operators changed stays."""
    other_slug = f"{declaration.slug}-model"  # where an entry has the declared slug already
    identity = ModelIdentity.objects.filter(slug__in=(declaration.slug, other_slug)).first()
    if identity is None:
        is_taken = LanguageModel.objects.filter(slug=declaration.slug).exists()
        identity = ModelIdentity.objects.create(slug=other_slug if is_taken else declaration.slug, **declaration.row)
    return identity


def identity_on_hub(location: str) -> ModelIdentity | None:
    """The model whose hub id, or an older one among its aliases, is `location`; None where none is."""
    identities = list(ModelIdentity.objects.order_by("pk"))
    by_hub_id = (identity for identity in identities if location in (identity.hub_id, *identity.aliases))
    return next(by_hub_id, None)


def take_over(entry: LanguageModel, identity: ModelIdentity) -> list[str]:
    """Make `entry` one of the model, with what is stated of that and missing of it; not saved. Returns the fields."""
    gaps = [name for name in SHARED if not getattr(entry, name) and getattr(identity, name)]
    for name in gaps:
        setattr(entry, name, getattr(identity, name))
    entry.identity = identity
    return ["identity", *gaps]


@transaction.atomic
def join_model(entry: LanguageModel, identity: ModelIdentity, reason: str, user: User | None = None) -> bool:
    """Make an entry evidence about `identity`; returns whether it was not. Its name and numbers stay its own.

    Raises Refused where there is no reason.
    """
    require_reason(reason)
    entry = lock_model(entry.pk)
    if entry.identity_id == identity.pk:
        return False
    former = describe_identity(entry)
    entry.save(update_fields=take_over(entry, identity))
    record_move(AuditVerb.JOIN_MODEL, entry, former, reason, user)
    return True


@transaction.atomic
def split_model(entry: LanguageModel, reason: str, user: User | None = None) -> ModelIdentity:
    """Make an entry a model of its own, of the entry's name: so that no seed joins it again. Returns the identity.

    Raises Refused where there is no reason, or where it is the only entry of its model.
    """
    require_reason(reason)
    entry = lock_model(entry.pk)
    if entry.identity is None or not entry.identity.entries.exclude(pk=entry.pk).exists():
        raise Refused.of_field("model", f"{entry.slug} shares its page with no other entry: there is nothing to split")
    former = describe_identity(entry)
    own = {name: getattr(entry, name) for name in SHARED}
    aliases = [entry.source_name] if entry.source_name else []
    entry.identity = with_free_slug(
        lambda slug: ModelIdentity.objects.create(slug=slug, name=entry.name, aliases=aliases, **own), entry.name
    )
    entry.save(update_fields=["identity"])
    record_move(AuditVerb.SPLIT_MODEL, entry, former, reason, user)
    return entry.identity


def require_reason(reason: str) -> None:
    """Raise Refused where it is empty."""
    if not reason.strip():
        raise Refused.of_field("reason", "it is empty; say why, the change log shows it for ever")


def describe_identity(entry: LanguageModel) -> dict[str, Any]:
    """The model of an entry, as the audit trail names it."""
    return {"identity": entry.identity.slug if entry.identity else None}


def record_move(verb: AuditVerb, entry: LanguageModel, former: dict[str, Any], reason: str, user: User | None) -> None:
    """Record that an entry went from one model to another."""
    change = former, describe_identity(entry)
    record(verb, f"model {entry.slug}", {"reason": reason}, user, change)


def with_free_slug(create: Callable[[str], Row], name: str, revision: str = "") -> Row:
    """What `create` makes of a free slug; of another one where somebody takes it at the same moment."""
    while True:
        slug = free_slug(name, revision)
        try:
            with transaction.atomic():
                return create(slug)
        except IntegrityError:
            if free_slug(name, revision) == slug:  # something else than the slug is taken
                raise


def free_slug(name: str, revision: str = "") -> str:
    """A slug from the name; where that is taken, with the start of the revision; where that is too, with a number.

    Entries and identities have their pages at one address, and so no slug in common.
    """
    slug = slugify(name.replace("/", "-").replace(".", "-"))[:90] or "model"
    longer = f"{slug}-{slugify(revision.removeprefix('sha256:'))[:12]}".strip("-")
    taken_slugs = {
        value
        for table in (LanguageModel, ModelIdentity)
        for value in table.objects.filter(slug__startswith=slug).values_list("slug", flat=True)
    }
    candidates = chain((slug, longer), (f"{longer}-{number}" for number in count(2)))
    return next(candidate for candidate in candidates if candidate not in taken_slugs)
