"""Entering language models: a reference becomes a row with its revision pinned."""

from pathlib import Path
from typing import Any, get_args

from django.db import transaction

from leaderboard.card.form import clean_field, clean_or_empty
from leaderboard.models import AuditVerb, LanguageModel
from leaderboard.services.audit import record
from leaderboard.services.cages import resolve_folders, resolve_model
from leaderboard.services.folders import name_of_model, store_folder
from leaderboard.services.identities import identity_on_hub, take_over, with_free_slug
from leaderboard.services.served import inspect_service, store_service
from scoring.language_models import ModelRefused, Precision, ResolvedModel, list_bundled
from scoring.language_models.revisions import folder_revision
from scoring.refusals import Refused
from scoring.served import CompletionsServer

SOURCES = {
    "hub": LanguageModel.Source.HUB,
    "folder": LanguageModel.Source.LOCAL,
    "gguf": LanguageModel.Source.LOCAL,
}


def add_model(
    ref: str,
    revision: str | None = None,
    name: str = "",
    family: str = "",
    interface: str = LanguageModel.Interface.TEXT,
    precision: str = "",
) -> tuple[LanguageModel, bool]:
    """Enter the model that `ref` (hub id, folder or GGUF file) means, at `revision` or the newest one.

    family: what a new row is listed under, in place of its architecture's. interface: how it is prompted. precision:
    what it is computed in; "" as the protocol of each metric says. Returns its row and whether it is new: the same
    revision is entered once for each interface and precision.

    Raises ModelRefused, HubUnavailable, or ValueError where the name, the family or the precision will not do.
    """
    resolved_model = resolve_model(ref, revision)
    location = resolved_model.location
    title = clean_field("name", name or title_of(resolved_model))
    card = {"family": clean_field("family", family)} if family else {}
    source = SOURCES[resolved_model.source]
    model, new = enter(resolved_model, source, location, title, interface, precision, **card)
    if model.source == LanguageModel.Source.LOCAL:
        store_folder(name_of_model(model), Path(location))
    return model, new


def title_of(resolved_model: ResolvedModel) -> str:
    """What a model is called where nobody says: as its identity, its hub id, or its folder or file."""
    if resolved_model.source != "hub":
        return Path(resolved_model.location).stem
    identity = identity_on_hub(resolved_model.location)
    return identity.name if identity else resolved_model.location


def add_served(
    ref: str,
    server: str,
    revision: str,
    name: str = "",
    family: str = "",
    interface: str = LanguageModel.Interface.TEXT,
    precision: str = "",
    weights: str = "",
) -> tuple[LanguageModel, bool]:
    """Enter the causal model that the completions server at the address `server` calls `ref`, as `name` or as that.

    What is served cannot be looked into: `revision` is what the operator knows of it (a commit, a version, a date); of
    a chat service the snapshot, as the service names it in its answers. interface: how it is prompted. precision: what
    the server computes in, as declared. The server is asked what it is and its control texts; where it gives
    likelihoods, they are compared with those of `weights`, or of a second answer. Returns its row and whether it is
    new.

    Raises Refused where the address or the revision will not do, ValueError for the name or the family, and what
    `inspect_service` does.
    """
    if not revision:
        raise Refused(f"{ref} needs a revision: say what the server serves, as in --revision 2026-11-01")
    address = CompletionsServer(server, ref).url.rstrip("/")
    title = clean_field("name", name or ref)
    entry = {
        "source": LanguageModel.Source.SERVER,
        "location": f"{address}#{ref}",
        "revision": revision,
        "precision": precision,
        "interface": interface,
    }
    earlier_entry = LanguageModel.objects.filter(**entry).first()
    if earlier_entry and not weights:
        return earlier_entry, False
    card = {"name": title, "family": clean_field("family", family), "kind": LanguageModel.Kind.CAUSAL}
    weight_format = "GGUF" if weights.endswith(".gguf") else ""
    draft = earlier_entry or LanguageModel(**entry, **card, weight_format=weight_format)
    service = inspect_service(draft, weights)
    with transaction.atomic():
        model, new = with_free_slug(
            lambda slug: LanguageModel.objects.get_or_create(
                **entry, defaults={**card, "slug": slug, "weight_format": weight_format}
            ),
            name_as_run(title, interface, precision),
            revision,
        )
        store_service(model, service)
        if new:
            record(AuditVerb.ADD_MODEL, f"model {model.slug}", {"source": model.source, "revision": revision})
    return model, new


def add_bundled() -> list[LanguageModel]:
    """The models that come with Plumbline; those that have no row are read, and entered."""
    source = LanguageModel.Source.BUNDLED
    rows = LanguageModel.objects.filter(source=source, interface=LanguageModel.Interface.TEXT, precision="")
    entries = {(model.location, model.revision): model for model in rows}
    keys = {folder: (folder.name, folder_revision(folder)) for folder in list_bundled()}
    new_folders = [folder for folder, key in keys.items() if key not in entries]
    for folder, model in zip(new_folders, resolve_folders(new_folders) if new_folders else (), strict=True):
        entries[keys[folder]] = enter(model, source, folder.name, folder.name)[0]
    return [entries[key] for key in keys.values()]


def name_as_run(name: str, interface: str, precision: str) -> str:
    """What a slug is made of: the name, of a chat entry that it is one, and the precision that an entry declares."""
    chat = "chat" if interface == LanguageModel.Interface.CHAT else ""
    return " ".join(filter(None, (name, chat, precision)))


@transaction.atomic
def enter(
    resolved_model: ResolvedModel,
    source: str,
    location: str,
    name: str,
    interface: str = LanguageModel.Interface.TEXT,
    precision: str = "",
    **card: Any,
) -> tuple[LanguageModel, bool]:
    """The row of a resolved model; made if this revision of it has none, with `card` for what is stated of it.

    interface: how it is prompted; precision: what it is computed in, "" as protocols say. The same revision may have
    an entry for each. Raises ModelRefused for a chat entry of a model without a chat template, Refused where the
    precision is none.
    """
    check_precision(precision)
    if interface == LanguageModel.Interface.CHAT and not resolved_model.has_chat_template:
        raise ModelRefused(
            f"{name} has no chat template, so nothing says how it is spoken to: enter it as raw text, or use a "
            "revision whose tokenizer_config.json or chat_template.jinja holds one"
        )
    architecture = resolved_model.architecture
    columns = {
        "name": name_apart(name, precision),
        "weight_format": resolved_model.weight_format,
        "family": architecture.family,
        "kind": architecture.kind,
        "licence": clean_or_empty("licence", resolved_model.licence),
        "parameters": architecture.parameters,
        "layers": architecture.layers,
        "heads": architecture.heads,
        "hidden_size": architecture.hidden_size,
        "context": architecture.context,
        "chat_template": resolved_model.chat_template,
        **card,
    }
    model, new = with_free_slug(
        lambda slug: LanguageModel.objects.get_or_create(
            source=source,
            location=location,
            revision=resolved_model.revision,
            interface=interface,
            precision=precision,
            defaults={"slug": slug, **columns},
        ),
        name_as_run(name, interface, precision),
        resolved_model.revision,
    )
    identity = identity_on_hub(location) if new and source == LanguageModel.Source.HUB else None
    if identity:
        model.save(update_fields=take_over(model, identity))
    if new:
        record(AuditVerb.ADD_MODEL, f"model {model.slug}", {"source": source, "revision": resolved_model.revision})
    return model, new


def check_precision(precision: str) -> None:
    """Raise Refused unless models can be computed in it, or it is "", which leaves it to protocols."""
    if precision not in ("", *get_args(Precision)):
        raise Refused.of_value("precision", precision, f"use {', '.join(get_args(Precision))}, or leave it out")


def name_apart(name: str, precision: str) -> str:
    """The name of a new entry: followed by its precision where an entry in another one has that name."""
    if not precision or not LanguageModel.objects.filter(name=name).exclude(precision=precision).exists():
        return name
    return f"{name[:180]} ({precision})"
