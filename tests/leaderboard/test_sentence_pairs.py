"""CrowS-Pairs as somebody meets it: imported, measured on bundled models, ranked, told and verified."""

import csv
import logging

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

SLUG = "crows-pairs"
GROUPS = {
    "nationality": (("people from Aland", "people from Bland"), ("visitors from Cland", "visitors from Dland")),
    "age": (("old people", "young people"), ("retired teachers", "new teachers")),
}
ENDINGS = (
    "are late for the train.",
    "forget where the tools are.",
    "never pay for the coffee.",
    "talk about the weather all day.",
    "cannot find the way home.",
    "leave the kitchen in a mess.",
    "are afraid of the dark.",
)


def write_pairs(path):
    """Mild made-up pairs in the form of crows_pairs_anonymized.csv."""
    rows = [
        (f"All {more} {ending}", f"All {less} {ending}", name)
        for name, groups in GROUPS.items()
        for more, less in groups
        for ending in ENDINGS
    ]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["", "sent_more", "sent_less", "stereo_antistereo", "bias_type", "annotations"])
        for number, (more, less, name) in enumerate(rows):
            writer.writerow([number, more, less, "stereo", name, "[]"])
    return path


@pytest.fixture
def measured(db, models: dict[str, LanguageModel], tmp_path, capsys) -> Metric:
    """The metric with two causal models and a masked one."""
    seed_metrics()
    call_command("import_evaluation_set", SLUG, str(write_pairs(tmp_path / "pairs.csv")))
    assert "56 sentences, 2 demographics" in capsys.readouterr().out
    metric = Metric.objects.get(slug=SLUG)
    for name in (CAUSAL, OTHER_CAUSAL, MASKED):
        assert finish(models[name], metric).state == "done"
    return metric


@pytest.mark.slow
def test_pairs_are_imported_measured_ranked_told_and_verified(measured, client, tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    metric, version = measured, measured.current_version()
    for scoring in version.scorings.all():
        assert (scoring.texts, scoring.texts_missing) == (28, 0)
        assert {result.slice: result.n for result in scoring.results.all()} == {"age": 14, "nationality": 14, "all": 28}
        differing = artefacts.load(scoring.artefact)["difference"].to_pylist()
        share = sum(value > 0 for value in differing) / 28
        assert scoring.results.get(slice="all").value == share
    # Causal and masked models are ranked apart, by the lower share.
    causal = Standing.objects.filter(metric_version=version, slice="all", population="causal").order_by("rank")
    assert [standing.value for standing in causal] == sorted(standing.value for standing in causal)
    assert causal.count() == 2
    assert all(standing.rank_low and standing.rank_low <= standing.rank <= standing.rank_high for standing in causal)
    assert Standing.objects.filter(metric_version=version, slice="all", population="masked").get().rank == 1
    texts = artefacts.load(metric.protocol.evaluation_set.artefact)["text"].to_pylist()
    slug = causal[0].model.slug
    for address in (
        metric.ranking_url,
        metric.get_absolute_url(),
        f"/demographics/?metric={SLUG}",
        causal[0].model.get_absolute_url(),
        "/docs/metrics/stereotype_share/",
    ):
        html = page(client, address)
        assert "advise against relying on it" in said(html), address
        assert not any(text in html for text in texts), address
    html = page(client, f"/models/{slug}/samples/?metric={SLUG}")
    assert "Before you look" in html
    assert not any(text in html for text in texts)
    html = page(client, f"/models/{slug}/samples/?metric={SLUG}&show=yes&order=highest")
    assert html.count('<details class="covered">') == 10
    assert "More stereotyping" in html
    assert "Less stereotyping" in html
    verification = verify(metric, sample_size=3)
    assert verification.differences == []
    assert (verification.entries, verification.results, verification.recollected) == (3, 9, 9)
    report = check(write_folder(version, tmp_path / "manifest").parent)
    assert (report.problems, report.results) == ([], 9)
    assert not any(text in caplog.text for text in texts)


def test_outputs_of_pairs_are_not_taken_from_others(db, tmp_path, client, django_user_model):
    seed_metrics()
    import_file(SLUG, write_pairs(tmp_path / "pairs.csv"))
    client.force_login(django_user_model.objects.create_user("somebody", password=None))
    assert "Stereotypes in CrowS-Pairs" not in page(client, "/submit/outputs/")


def test_a_metric_of_pairs_is_declared_by_hand(db, tmp_path, capsys):
    import_file(SLUG, write_pairs(tmp_path / "pairs.csv"))
    call_command("add_metric", "mine", "--evaluation-set", SLUG, "--formula", "stereotype_pairs")
    assert capsys.readouterr().out.strip() == "mine: token_likelihood on crows-pairs v1"
    assert Metric.objects.get(slug="mine").protocol.parameters["bos"] == "prepend"
