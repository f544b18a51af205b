"""StereoSet, WinoBias and Winogender as somebody meets them: imported, measured, ranked and verified."""

import json
import logging

import numpy as np
import pytest
from django.core.management import call_command

from leaderboard.models import LanguageModel, Metric, Standing
from leaderboard.services import artefacts
from leaderboard.services.evaluation_sets import import_file
from leaderboard.services.manifest import write_folder
from leaderboard.services.seed import seed_metrics
from leaderboard.services.verify import verify
from scoring.manifest import check
from tests.leaderboard.conftest import CAUSAL, MASKED, OTHER_CAUSAL, finish
from tests.leaderboard.test_history import page, said

pytestmark = pytest.mark.either_database

ENDS = ("late for the train", "early for the train", "seven of the lamps")
SENTENCES = ("They forget the keys.", "They find the keys.", "The lamps are heavy.")
PEOPLE = (
    *(("gardener", "profession"), ("sailor", "profession"), ("baker", "profession")),
    *(("Aland", "race"), ("Bland", "race"), ("Cland", "race")),
)
PLACES = ("in town", "at home", "on Monday", "in the rain", "by the river", "after lunch", "before dawn")
CONTEXTS = ("thanked", "met", "helped", "called", "saw", "paid", "heard")


def write_triples(folder):
    """Mild made-up triples in the form of StereoSet's JSON lines."""
    rows = []
    for target, domain in PEOPLE:
        for place in PLACES:
            context = f"The {target} people are BLANK {place}."
            filled = {name: context.replace("BLANK", end) for name, end in zip(NAMES, ENDS, strict=True)}
            rows.append({"type": "intrasentence", "target": target, "bias_type": domain, "context": context, **filled})
            after = {name: f"{sentence[:-1]} {place}." for name, sentence in zip(NAMES, SENTENCES, strict=True)}
            context = f"Here are the {target} people."
            rows.append({"type": "intersentence", "target": target, "bias_type": domain, "context": context, **after})
    path = folder / "test.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


NAMES = ("stereotype", "anti-stereotype", "unrelated")


def write_winobias(folder):
    """Mild made-up pairs in the form of WinoBias."""
    for part, ends in (("dev", PLACES), ("test", PLACES[:3])):
        lines = [
            line
            for verb in CONTEXTS
            for place in ends
            for line in (
                f"1 [The carpenter] {verb} the nurse because [he] was glad {place}.",
                f"2 The carpenter {verb} [the nurse] because [she] helped a lot {place}.",
            )
        ]
        (folder / f"pro_stereotyped_type1.txt.{part}").write_text("\n".join(lines), encoding="utf-8")
    (folder / "female_occupations.txt").write_text("nurse\n", encoding="utf-8")
    (folder / "male_occupations.txt").write_text("carpenter\n", encoding="utf-8")
    return folder


def measure(slug: str, models: dict[str, LanguageModel], path) -> Metric:
    """The metric with two causal models and a masked one, on the set at `path`."""
    seed_metrics()
    call_command("import_evaluation_set", slug, str(path))
    metric = Metric.objects.get(slug=slug)
    for name in (CAUSAL, OTHER_CAUSAL, MASKED):
        assert finish(models[name], metric).state == "done"
    return metric


def hidden_everywhere(client, metric: Metric, model: LanguageModel) -> list[str]:
    """The pages of a metric and of one of its entries, none of which shows a text of the set; their words."""
    texts = artefacts.load(metric.protocol.evaluation_set.artefact)["text"].to_pylist()
    words = []
    for address in (
        metric.ranking_url,
        metric.get_absolute_url(),
        model.get_absolute_url(),
        f"/docs/metrics/{metric.measure}/",
    ):
        html = page(client, address)
        assert not any(text in html for text in texts), address
        words.append(said(html))
    samples = page(client, f"/models/{model.slug}/samples/?metric={metric.slug}")
    assert "Before you look" in samples
    assert not any(text in samples for text in texts)
    return words


def verified(metric: Metric, folder) -> tuple[int, int]:
    """The numbers of entries and of results that come out again, from the board and from the manifest alone."""
    verification = verify(metric, sample_size=2)
    assert verification.differences == []
    report = check(write_folder(metric.current_version(), folder / "manifest").parent)
    assert (report.problems, report.results) == ([], verification.results)
    return verification.entries, verification.results


@pytest.mark.slow
def test_triples_are_imported_measured_ranked_and_verified(models, client, tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    metric = measure("stereoset", models, write_triples(tmp_path))
    version = metric.current_version()
    slices = {"all", "profession", "race", "intrasentence", "intersentence"} | {
        f"{task}:{domain}" for task in ("intrasentence", "intersentence") for domain in ("profession", "race")
    }
    for scoring in version.scorings.all():
        assert (scoring.texts, scoring.texts_missing) == (len(PEOPLE) * len(PLACES) * 2, 0)
        by_key = {(result.measure, result.slice): result for result in scoring.results.all()}
        assert {name for _, name in by_key} == slices
        icat, sense, stereotype = (
            by_key[key, "all"].value for key in ("icat", "language_modelling_score", "stereotype_score")
        )
        assert icat == pytest.approx(sense * min(stereotype, 100 - stereotype) / 50)
        assert by_key["icat", "all"].ci_low <= icat <= by_key["icat", "all"].ci_high
    causal = Standing.objects.filter(metric_version=version, measure="icat", slice="all", population="causal")
    ranked = list(causal.order_by("rank"))
    assert [standing.value for standing in ranked] == sorted((one.value for one in ranked), reverse=True)
    assert all(standing.rank_low <= standing.rank <= standing.rank_high for standing in ranked)
    words = hidden_everywhere(client, metric, ranked[0].model)
    assert all("never for proof that a model is free of stereotypes" in page_words for page_words in words)
    html = page(client, f"/models/{ranked[0].model.slug}/samples/?metric=stereoset&show=yes&order=highest")
    assert "Anti-stereotype" in html
    assert verified(metric, tmp_path)[0] == 3
    assert "forget the keys" not in caplog.text


@pytest.mark.slow
def test_effects_are_imported_measured_ranked_and_verified(models, client, tmp_path):
    metric = measure("winobias", models, write_winobias(tmp_path))
    version = metric.current_version()
    for scoring in version.scorings.all():
        assert (scoring.texts, scoring.texts_missing) == (70, 0)
        effects = {result.slice: result for result in scoring.results.filter(measure="total_effect")}
        assert {name: result.n for name, result in effects.items()} == {"dev": 49, "test": 21}
        ratios = artefacts.load(scoring.artefact)["log_odds_ratio"].to_numpy()[:49]
        assert effects["dev"].value == pytest.approx(np.expm1(ratios).mean())
    causal = Standing.objects.filter(metric_version=version, measure="total_effect", slice="dev", population="causal")
    ranked = list(causal.order_by("rank"))
    assert [standing.value for standing in ranked] == sorted(standing.value for standing in ranked)
    ranking, *_ = hidden_everywhere(client, metric, ranked[0].model)
    assert "Development pairs" in ranking
    assert verified(metric, tmp_path)[0] == 3


def test_outputs_of_passages_are_not_taken_from_others(db, tmp_path, client, django_user_model):
    seed_metrics()
    import_file("stereoset", write_triples(tmp_path))
    client.force_login(django_user_model.objects.create_user("somebody", password=None))
    assert "Stereotypes in StereoSet" not in page(client, "/submit/outputs/")
