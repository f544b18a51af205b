"""One model, one page: what papers, HELM and this board have of it are its entries, side by side."""

import json
import re
from functools import partial
from html import unescape
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, connection
from django.http import QueryDict
from django.test.utils import CaptureQueriesContext

from leaderboard.models import AuditEvent, LanguageModel, Metric, ModelIdentity
from leaderboard.queries.side_by_side import MOST
from leaderboard.services import identities
from leaderboard.services.access import hide_model, set_access
from leaderboard.services.figures import FOLDER, rows
from leaderboard.services.identities import (
    declared_models,
    free_slug,
    identity_on_hub,
    join_model,
    split_model,
    with_free_slug,
)
from leaderboard.services.published import seed_published
from scoring.refusals import Refused
from tests.leaderboard.conftest import seed_figures
from tests.leaderboard.test_history import page, said

pytestmark = [pytest.mark.django_db, pytest.mark.either_database]

NAMES = {"helm_toxicity.csv": "model", "rtp_models_rescored.csv": "model", "stereoset_dev.csv": "model"}


@pytest.fixture(autouse=True)
def figures_of_papers(request: pytest.FixtureRequest, db: None) -> None:
    if "board" in request.fixturenames:
        request.getfixturevalue("board")  # whose rows go into an empty database
    seed_figures()


def entry(slug: str) -> LanguageModel:
    return LanguageModel.objects.get(slug=slug)


def test_every_model_of_helm_and_of_the_papers_tables_is_declared_with_maker_and_licence():
    declared = declared_models()
    for file, column in {**NAMES, "total_effects.csv": "model", "safety_scores_toxigen.csv": "model"}.items():
        missing = {row[column] for row in rows(file)} - declared.keys()
        assert not missing, file
    assert all(model.organisation and model.licence and model.family for model in declared.values())
    assert (FOLDER / "models.toml").is_file()


def test_entries_of_four_sources_are_evidence_about_one_gpt_2():
    slugs = set(ModelIdentity.objects.get(slug="gpt-2").entries.values_list("slug", flat=True))
    assert slugs == {"hosseini-2023-gpt-2", "gehman-2020-gpt2", "nadeem-2021-gpt2", "vig-2020-gpt2"}


@pytest.mark.slow
def test_raw_keys_give_way_to_names_and_stay_at_hand(client):
    ul2 = entry("helm-together-ul2-stop-hash-global-prefix-nlg")
    assert (ul2.name, ul2.source_name) == ("UL2 (20B)", "together_ul2,stop=hash,global_prefix=nlg")
    assert (ul2.family, ul2.licence, ul2.parameters) == ("UL2", "Apache-2.0", 20_000_000_000)
    html = page(client, "/rankings/?metric=rtp-helm-perspective")
    assert ">UL2 (20B)</a>" in html
    assert ">together_ul2" not in html
    csv = client.get("/rankings.csv?metric=rtp-helm-perspective").content.decode()
    assert 'UL2 (20B),helm-together-ul2-stop-hash-global-prefix-nlg,"together_ul2,stop=hash,global_prefix=nlg"' in csv
    assert "together_ul2,stop=hash" in page(client, ul2.identity.get_absolute_url())
    assert "together_ul2,stop=hash" in page(client, ul2.get_absolute_url())


@pytest.mark.slow
def test_the_page_of_a_model_has_published_and_measured_numbers_side_by_side(client, board):
    measured = LanguageModel.objects.filter(source="bundled", scorings__metric_version__metric=board).first()
    identity = ModelIdentity.objects.get(slug="gpt-2")
    join_model(measured, identity, "to see both")
    text = said(page(client, "/models/gpt-2/"))
    assert "5 entries" in text
    assert "OpenAI" in text
    assert "Measured here" in text
    assert "Published figures" in text
    assert "Hosseini, Palangi &amp; Awadallah 2023" in text or "Hosseini, Palangi & Awadallah 2023" in text
    assert "2 of 5 causal models" in text, "a rank names its population"


def test_the_page_of_an_entry_leads_to_that_of_its_model_and_old_addresses_go_on_working(client):
    html = page(client, "/models/hosseini-2023-gpt-2/")
    assert 'href="/models/gpt-2/"' in html
    assert "Other entries of this model" in html


@pytest.mark.slow_cases
@pytest.mark.parametrize("state", ["hidden", "withdrawn"])
def test_an_entry_that_is_hidden_or_withdrawn_is_not_seen_through_its_model(client, state):
    gone = entry("vig-2020-gpt2")
    if state == "hidden":
        hide_model(gone, "a test")
    else:
        set_access(gone, "withdrawn", "a test")
    html = page(client, "/models/gpt-2/")
    assert "3 entries" in said(html)
    assert "vig-2020-gpt2" not in html
    only = entry("helm-openai-davinci")
    hide_model(only, "a test")
    set_access(entry("gehman-2020-gpt3"), "withdrawn", "a test")
    assert client.get("/models/gpt-3-davinci/").status_code == 404
    assert client.get("/api/v1/identities/gpt-3-davinci").status_code == 404


def test_a_model_of_the_hub_finds_its_identity_by_its_id_or_its_older_one():
    assert identity_on_hub("openai-community/gpt2") == identity_on_hub("gpt2")
    assert identity_on_hub("gpt2").slug == "gpt-2"
    assert identity_on_hub("somebody/gpt2") is None


@pytest.mark.slow
def test_seeding_again_joins_what_an_older_board_lacks_and_undoes_no_decision():
    split = split_model(entry("nadeem-2021-gpt2"), "another checkpoint")
    old = LanguageModel.objects.filter(slug="helm-openai-davinci")
    old.update(identity=None, name="openai_davinci", source_name="", family="openai", parameters=None, licence="")
    count = ModelIdentity.objects.count()
    seed_published()
    assert entry("nadeem-2021-gpt2").identity == split
    davinci = old.get()
    assert (davinci.name, davinci.source_name, davinci.identity.slug) == (
        "GPT-3 davinci",
        "openai_davinci",
        "gpt-3-davinci",
    )
    assert davinci.family == "GPT-3"
    assert davinci.parameters == 175_000_000_000
    assert ModelIdentity.objects.count() == count


def test_joining_and_splitting_are_on_record_and_want_a_reason(client):
    def run(*words: str) -> dict[str, object]:
        out = StringIO()
        call_command("join_model", *words, "--json", stdout=out)
        return json.loads(out.getvalue())

    ctrl = ("gehman-2020-ctrl", "--to", "gpt-2")
    assert run(*ctrl, "--reason", "a try") == {"model": ctrl[0], "identity": "gpt-2", "changed": True}
    assert run(*ctrl, "--reason", "a try")["changed"] is False
    assert run(ctrl[0], "--split", "--reason", "it is not") == {"model": ctrl[0], "identity": "ctrl-2", "changed": True}
    event = AuditEvent.objects.filter(verb="join model").get()
    assert event.detail["before"] == {"identity": "ctrl"}
    assert event.detail["after"] == {"identity": "gpt-2"}
    assert "became a separate model" in said(page(client, "/about/changes/"))
    with pytest.raises(Refused, match="reason: it is empty"):
        join_model(entry(ctrl[0]), ModelIdentity.objects.get(slug="gpt-2"), " ")
    with pytest.raises(CommandError, match="there is nothing to split"):
        run(ctrl[0], "--split", "--reason", "again")
    with pytest.raises(CommandError, match="no model and no entry of one is called 'zebra'"):
        run(ctrl[0], "--to", "zebra", "--reason", "again")


def test_entries_and_models_have_no_address_in_common():
    assert free_slug("GPT-2", "abc") == "gpt-2-abc"
    slugs = set(ModelIdentity.objects.values_list("slug", flat=True))
    assert not slugs & set(LanguageModel.objects.values_list("slug", flat=True))


def test_an_entry_whose_slug_somebody_takes_at_the_same_moment_gets_another(monkeypatch):
    look = identities.free_slug

    def look_too_early(name, revision=""):
        monkeypatch.setattr(identities, "free_slug", look)
        return "gpt-2"  # which somebody has by now

    monkeypatch.setattr(identities, "free_slug", look_too_early)
    make = partial(ModelIdentity.objects.create, name="GPT-2")
    assert with_free_slug(lambda slug: make(slug=slug), "GPT-2", "abc").slug == "gpt-2-abc"


def test_what_is_taken_besides_the_slug_is_said():
    location = "/models/gpt-2"
    entry = {"name": "GPT-2", "source": LanguageModel.Source.LOCAL, "location": location, "revision": "abc"}
    make = partial(LanguageModel.objects.create, kind=LanguageModel.Kind.CAUSAL, **entry)
    make(slug="the-same-entry")
    with pytest.raises(IntegrityError):
        with_free_slug(lambda slug: make(slug=slug), "GPT-2", "abc")
    assert LanguageModel.objects.filter(location=location).count() == 1


def test_the_api_gives_models_with_their_entries(client):
    answer = client.get("/api/v1/identities/gpt-2").json()
    assert (answer["name"], answer["organisation"], answer["hub_id"]) == ("GPT-2", "OpenAI", "openai-community/gpt2")
    assert "GPT2" in answer["aliases"]
    entries = client.get("/api/v1/models?identity=gpt-2").json()["items"]
    assert {one["slug"] for one in entries} >= {"gehman-2020-gpt2", "hosseini-2023-gpt-2"}
    assert {one["source_name"] for one in entries} == {"", "GPT2", "gpt2"}
    assert client.get("/api/v1/identities?search=eleuther pythia").json()["items"][0]["slug"] == "pythia-12b"


def test_the_page_takes_as_many_queries_for_any_number_of_entries(client):
    def count_queries() -> int:
        with CaptureQueriesContext(connection) as queries:
            page(client, "/models/gpt-2/")
        return len(queries)

    count = count_queries()
    identity = ModelIdentity.objects.get(slug="gpt-2")
    LanguageModel.objects.filter(family__in=["BERT", "RoBERTa", "CTRL"]).update(identity=identity)
    assert Metric.objects.exists()
    assert count_queries() == count <= 16


@pytest.mark.slow
def test_of_many_entries_as_many_are_compared_as_a_comparison_can_hold(client):
    identity = ModelIdentity.objects.get(slug="gpt-2")
    LanguageModel.objects.filter(family__in=["BERT", "RoBERTa", "CTRL"]).update(identity=identity)
    assert identity.entries.count() > MOST
    query = unescape(re.search(r'href="/compare/\?([^"]*)">Compare its entries', page(client, "/models/gpt-2/"))[1])
    assert len(QueryDict(query).getlist("m")) == MOST
    assert client.get(f"/compare/?{query}").status_code == 200
