"""Entering models and asking for their evaluation: what a row gets of what is known, and what is refused."""

import pytest
from django.utils import timezone

from leaderboard.models import AuditEvent, LanguageModel, ModelIdentity, Run, Scoring
from leaderboard.services import identities
from leaderboard.services.evaluate import CannotEvaluate, check_method, find_ranked_twin, request_evaluation, run_of
from leaderboard.services.figures import enter_model
from leaderboard.services.language_models import check_precision, enter, name_apart, title_of
from scoring.language_models import ModelRefused, ResolvedModel
from scoring.language_models.description import Architecture
from scoring.refusals import Refused
from tests.leaderboard.stored import metric_of, version_of

pytestmark = pytest.mark.django_db

ARCHITECTURE = Architecture("causal", "gpt2", "GPT2LMHeadModel", "GPT-2", 1000, 2, 4, 8, 64, 100)
OAK = ResolvedModel("hub", "plumb/oak", "c" * 40, ARCHITECTURE, "mit", weight_format="bfloat16")


@pytest.fixture
def identity(db):
    return ModelIdentity.objects.create(
        slug="oak-model", name="Oak", hub_id="plumb/oak", family="Oaks", parameters=77, licence="apache-2.0"
    )


def create_model(slug: str, **values: object) -> LanguageModel:
    return LanguageModel.objects.create(slug=slug, **{"name": slug, "kind": "causal", "source": "uploaded"} | values)


# Entering


def test_a_row_gets_what_files_say_and_the_gaps_from_its_model(identity):
    unlicensed = ResolvedModel("hub", "plumb/oak", "d" * 40, ARCHITECTURE, "")
    model, is_new = enter(unlicensed, "hub", "plumb/oak", "Oak of the hub")
    model.refresh_from_db()
    assert is_new
    assert (model.identity, model.licence, model.family, model.parameters) == (identity, "apache-2.0", "GPT-2", 1000)
    event = AuditEvent.objects.get(verb="add model")
    assert (event.subject, event.detail) == ("model oak-of-the-hub", {"source": "hub", "revision": "d" * 40})
    other, _ = enter(OAK, "hub", "plumb/oak", "Oak", family="Ours", precision="bfloat16")
    fields = ("name", "family", "kind", "licence", "parameters", "layers", "heads", "hidden_size", "context")
    assert [getattr(other, field) for field in fields] == ["Oak", "Ours", "causal", "mit", 1000, 2, 4, 8, 64]
    assert (other.weight_format, other.chat_template, other.slug) == ("bfloat16", "", "oak-bfloat16")
    assert enter(OAK, "hub", "plumb/oak", "Another name", precision="bfloat16") == (other, False)
    assert AuditEvent.objects.filter(verb="add model").count() == 2


def test_a_model_is_called_as_its_identity_its_hub_id_or_its_folder(identity):
    assert title_of(OAK) == "Oak"
    assert title_of(ResolvedModel("hub", "plumb/ash", "c" * 40, ARCHITECTURE, "mit")) == "plumb/ash"
    assert title_of(ResolvedModel("gguf", "/srv/models/ash.gguf", "c" * 40, ARCHITECTURE, "mit")) == "ash"


def test_an_entry_that_cannot_be_run_as_it_says_is_refused():
    with pytest.raises(ModelRefused, match=r"^Oak has no chat template, .* enter it as raw text, or use a revision"):
        enter(OAK, "hub", "plumb/oak", "Oak", interface="chat")
    with pytest.raises(Refused, match=r"precision.*half.*use float32, .*, or leave it out"):
        check_precision("half")
    assert check_precision("") is None
    assert check_precision("bfloat16") is None
    assert not LanguageModel.objects.exists()


def test_an_entry_in_another_precision_is_told_apart_by_name():
    create_model("oak", name="Oak", precision="bfloat16")
    assert name_apart("Oak", "float32") == "Oak (float32)"
    assert name_apart("Oak", "bfloat16") == "Oak"
    assert name_apart("Oak", "") == "Oak"
    assert name_apart("Ash", "float32") == "Ash"
    create_model("long", name=200 * "x")
    assert name_apart(200 * "x", "float32") == 180 * "x" + " (float32)"


def test_a_source_that_knows_more_fills_the_gaps_of_an_entry_and_changes_nothing_else():
    first = enter_model("oak", "Oak", "Oaks", "causal", layers=2)
    assert (first.source, first.kind, first.family) == ("published", "causal", "Oaks")
    enter_model("oak", "Another name", "Others", "masked", layers=3, heads=4, hidden_size=8, parameters=1000)
    row = LanguageModel.objects.get(slug="oak")
    assert (row.name, row.family, row.kind) == ("Oak", "Oaks", "causal")
    assert (row.layers, row.heads, row.hidden_size, row.parameters) == (2, 4, 8, 1000)


def test_two_declared_models_of_one_name_are_an_error_of_the_file(tmp_path, monkeypatch):
    entries = [
        f'[[models]]\nslug = "{slug}"\nname = "{name}"\norganisation = "o"\nfamily = "f"\nlicence = "mit"\n'
        f"aliases = {aliases}\n"
        for slug, name, aliases in (("oak", "Oak", '["oak", "Oak"]'), ("ash", "Ash", '["Oak"]'))
    ]
    path = tmp_path / "models.toml"
    monkeypatch.setattr(identities, "FILE", path)
    path.write_text(entries[0])
    assert set(identities.declared_models.__wrapped__()) == {"Oak", "oak"}
    path.write_text("".join(entries))
    with pytest.raises(ValueError, match=r"^models\.toml: ash and oak are both called 'Oak'$"):
        identities.declared_models.__wrapped__()


# Asking for an evaluation


def test_outputs_that_nobody_can_collect_here_are_refused_with_the_reason():
    version = version_of(metric_of("rude", "profanity"), "one")
    uploaded = create_model("oak")
    with pytest.raises(CannotEvaluate, match=r"^oak cannot be evaluated under rude v1: its weights are not here, and"):
        run_of(uploaded, version)
    moved = create_model(
        "ash", source="server", location="http://10.0.0.8/v1#ash", revision="1", service_changed_at=timezone.now()
    )
    with pytest.raises(CannotEvaluate, match=r"^ash cannot .* v1: its service is another one since; evaluate the rev"):
        run_of(moved, version)
    run = Run.objects.create(model=moved, protocol=version.protocol, state="queued")
    with pytest.raises(CannotEvaluate, match="another one since"):
        run_of(moved, version)
    outputs = version.protocol.evaluation_set.artefact
    Run.objects.filter(pk=run.pk).update(state="done", artefact=outputs)
    assert run_of(moved, version) == run, "what was collected before the change counts"


@pytest.mark.parametrize("access", ["restricted", "withdrawn"])
def test_a_model_that_is_not_open_is_not_evaluated(access):
    metric = metric_of("rude", "profanity")
    model = create_model("oak", access=access)
    create_model("ash")
    with pytest.raises(CannotEvaluate, match=f"^oak cannot be evaluated: it is {access}$"):
        request_evaluation(model, metric)
    published = create_model("elm", source="published")
    with pytest.raises(CannotEvaluate, match=r"^elm cannot be evaluated: it stands for published figures$"):
        request_evaluation(published, metric)


def test_a_chat_entry_needs_a_metric_that_asks_in_chats():
    metric = metric_of("rude", "profanity")
    place = {"source": "local", "location": "/srv/oak", "revision": "1"}
    chat, text = create_model("oak-chat", interface="chat", **place), create_model("oak", **place)
    assert check_method(text, metric) is None
    with pytest.raises(
        CannotEvaluate, match=r"^oak-chat cannot .* it is prompted as a chat, and this metric continues"
    ):
        check_method(chat, metric)
    metric.chat_protocol = metric.protocol
    assert check_method(chat, metric) is None


def test_the_same_weights_through_the_other_interface_count_where_they_have_numbers_or_wait_for_them():
    metric, other_metric = metric_of("rude", "profanity"), metric_of("ruder", "detoxify-original")
    place = {"source": "local", "location": "/srv/oak", "revision": "1"}
    chat, text = create_model("oak-chat", interface="chat", **place), create_model("oak", **place)
    assert find_ranked_twin(text, metric) is None
    run = Run.objects.create(model=chat, protocol=metric.protocol)
    other_version = version_of(other_metric, "other")
    Scoring.objects.create(model=chat, metric_version=other_version, run=run, state="queued")
    assert find_ranked_twin(text, metric) is None
    scoring = Scoring.objects.create(model=chat, metric_version=version_of(metric, "one"), run=run, state="cancelled")
    assert find_ranked_twin(text, metric) is None
    Scoring.objects.filter(pk=scoring.pk).update(state="queued")
    assert find_ranked_twin(text, metric) == chat
    assert find_ranked_twin(chat, metric) is None
