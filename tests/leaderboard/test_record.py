"""The record: what changed between versions and between scorers, and where everyone stood."""

import csv
import io
import json
from datetime import UTC, datetime, timedelta
from importlib import import_module

import numpy as np
import pyarrow as pa
import pytest
from django.apps import apps
from django.core.cache import caches
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from scipy import stats

from leaderboard.models import LanguageModel, Metric, MetricVersion, Result, Scoring, Standing
from leaderboard.services import artefacts
from leaderboard.services.publish import publish_standings
from leaderboard.services.published import FOLDER
from leaderboard.services.verify import verify
from leaderboard.views.comparison import kept_comparison
from scoring.artefacts import SCORE
from scoring.metrics.formulas import values_of
from tests.charts import list_charts, read_chart, traces
from tests.leaderboard.conftest import seed_figures
from tests.leaderboard.ranks import ranked
from tests.leaderboard.stored import MODELS, K, metric_of, run_of, runs_on, score_all, score_one, version_of

pytestmark = pytest.mark.django_db

HELM = "rtp-helm-perspective"
FRACTION = ("--measure", "toxic_fraction_unique", "--slice", "toxic", "--from", "1", "--to", "2")
STEEPER = {"profanity": lambda x: np.minimum(1, x + 0.1)}
PLAIN = {"profanity": lambda x: x}


def run(*words: str) -> str:
    out = io.StringIO()
    call_command(*words, stdout=out)
    return out.getvalue()


def changes(*words: str) -> dict:
    return json.loads(run("rank_changes", *words, "--format", "json"))


def rows(name: str) -> list[dict[str, str]]:
    with (FOLDER / name).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def helm(db: None) -> Metric:
    """HELM's figures, before and after."""
    seed_figures()
    return Metric.objects.get(slug=HELM)


@pytest.fixture
def two_versions(db: None) -> tuple[MetricVersion, MetricVersion]:
    """Four models under a scorer, and under the same one with 0.1 added to every score."""
    metric = metric_of("rude", "profanity")
    runs = runs_on(metric)
    versions = (version_of(metric, "one"), version_of(metric, "two"))
    for version, scorer in zip(versions, (PLAIN, STEEPER), strict=True):
        score_all(version, runs, scorer)
    return versions


@pytest.fixture
def two_scorers(db: None) -> tuple[Metric, Metric]:
    """Four models under two scorers with two attributes of the same names; the second scorer is blunter."""
    first, second = metric_of("careful", "profanity"), metric_of("blunt", "detoxify-original")
    runs = runs_on(first)
    score_all(version_of(first, "a"), runs, {"TOXICITY": lambda x: x, "INSULT": lambda x: 1 - x})
    score_all(version_of(second, "b"), runs, {"toxicity": np.sqrt, "insult": lambda x: (1 - x) ** 2, "other": np.sin})
    return first, second


def test_a_board_from_before_files_helms_fraction_as_what_it_is(helm):
    standings = Standing.objects.filter(metric_version__metric=helm, measure="toxic_fraction_unique")
    results = Result.objects.filter(pk__in=list(standings.values_list("result", flat=True)))
    keys = [list(rows.values_list("pk", flat=True)) for rows in (standings, results)]
    for rows, known in ((Standing, keys[0]), (Result, keys[1])):
        rows.objects.filter(pk__in=known).update(measure="toxic_fraction")
    assert verify(helm).differences
    import_module("leaderboard.migrations.0011_labels").file_unique_fractions(apps, None)
    assert not verify(helm).differences


def test_all_666_printed_values_of_helm_are_there_with_the_ranks_of_its_toxic_fraction(helm):
    ranks = {(row["model"], row["split"]): row for row in rows("helm_toxic_frac_ranks.csv")}
    assert len(ranks) == 37
    names = {
        "toxic_frac": "toxic_fraction_unique",
        "max_toxicity_probability": "toxicity_probability",
        "expected_max_toxicity": "expected_max_toxicity",
    }
    numbers = {}
    for standing in Standing.objects.filter(metric_version__metric=helm).select_related("result", "model"):
        numbers[standing.metric_version_id, standing.model.source_name, standing.measure, standing.slice] = standing
    versions = {version.number: version.pk for version in helm.versions.all()}
    printed = rows("helm_toxicity.csv")
    assert len(printed) == len(numbers) == 37 * 3 * 6
    for row in printed:
        number = 1 if row["scoring"] == "helm_v0.2.2" else 2
        suffix = "-rescored" if "prompts" in row["scoring"] else ""
        standing = numbers[versions[number], row["model"], names[row["metric"]], row["split"] + suffix]
        assert standing.value == float(row["value"])
        exact = ranks.get((row["model"], row["split"] + suffix)) if row["metric"] == "toxic_frac" else None
        if exact:
            column = "rank_helm_v0.2.2" if number == 1 else "rank_rescored_generations"
            assert standing.rank == standing.result.published_rank == int(exact[column])
        else:
            assert standing.result.published_rank is None


def test_the_rank_changes_of_pozzobon_et_al_come_out_with_every_row_of_their_table_3(helm):
    found = changes(HELM, *FRACTION)
    assert found["changed_ranks"] == 24
    assert found["changed_values"] == 15
    assert found["mean_abs_difference"] == pytest.approx(0.0018, abs=5e-5)
    assert found["distribution_shift"] is None
    called = dict(LanguageModel.objects.values_list("name", "source_name"))
    models = {called[model["model"]] or model["model"]: model for model in found["models"]}
    assert len(models) == 37
    table = rows("helm_rank_changes.csv")
    assert len(table) == 10
    for row in table:
        model = models[row["model"]]
        assert model["change"] == model["from_rank"] - model["to_rank"] == int(row["rank_change"])
        assert model["to_rank"] == int(row["rank_rescored_generations"])
        assert model["from_value"] == float(row["value_helm_v0.2.2"])
        assert model["to_value"] == float(row["value_rescored_generations"])
    curie = models["openai_text-curie-001"]
    assert (curie["from_rank"], curie["to_rank"]) == (35, 23)
    order = [models[row["model"]] for row in rows("helm_toxic_frac_ranks.csv")]
    tau = stats.kendalltau([m["from_rank"] for m in order], [m["to_rank"] for m in order])
    assert found["kendall_tau"] == pytest.approx(tau.statistic)


def test_names_stand_in_json_as_they_are_written(two_versions):
    LanguageModel.objects.filter(slug=two_versions[0].standings.first().model.slug).update(name="Modèle 七")
    assert "Modèle 七" in run("rank_changes", "rude", "--format", "json")


@pytest.mark.parametrize(("rule", "count"), [("equal", 22), ("first", 19)])
def test_ties_share_a_rank_or_follow_each_other_by_name_as_asked(helm, rule, count):
    found = changes(HELM, "--measure", "expected_max_toxicity", "--slice", "toxic", "--tie-rule", rule)
    assert found["changed_ranks"] == count
    assert found["changed_values"] == 16


def test_without_options_it_is_the_last_two_versions_on_what_the_page_shows_first(helm):
    found = changes(HELM)
    assert (found["measure"], found["slice"]) == ("expected_max_toxicity", "toxic")
    assert (found["from"]["version"], found["to"]["version"]) == (1, 2)


def test_table_and_csv_have_the_same_numbers(helm):
    table = run("rank_changes", HELM, *FRACTION)
    assert "24 of 37 ranks changed" in table
    assert "15 of 37 values changed, as printed to 3 decimals" in table
    found = list(csv.DictReader(io.StringIO(run("rank_changes", HELM, *FRACTION, "--format", "csv"))))
    curie = next(row for row in found if row["model"] == "text-curie-001")
    assert (curie["from_rank"], curie["to_rank"], curie["from_value"]) == ("35", "23", "0.107")
    assert len(found) == 37


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((HELM, "--from", "7"), "no published version 7; there is 1 \\(published, superseded\\), 2"),
        ((HELM, "--measure", "safety_score"), "there is expected_max_toxicity, toxic_fraction"),
        ((HELM, "--slice", "women"), "there is toxic, nontoxic"),
        (("safety-toxigen",), "no two versions"),
        (("nonsense",), "known: .*rtp-helm-perspective"),
    ],
)
def test_what_does_not_exist_is_refused_with_what_does(helm, words, said):
    with pytest.raises(CommandError, match=said):
        run("rank_changes", *words)


def test_between_measured_versions_the_shift_of_scores_is_told_by_entry_and_over_all(two_versions):
    found = changes("rude", "--slice", "all")
    assert found["slice"] == "profanity:all"
    shift = found["distribution_shift"]
    assert set(shift["entries"]) == {"alder", "birch", "cedar", "damson"}
    scores = [
        np.concatenate([values_of(artefacts.load(of.artefact))[:, 0] for of in version.scorings.order_by("pk")])
        for version in two_versions
    ]
    pooled = shift["pooled"][0]
    assert pooled["attribute"] == "profanity"
    assert pooled["n"] == len(MODELS) * 12 * K
    assert pooled["wasserstein"] == pytest.approx(stats.wasserstein_distance(*scores), abs=1e-6)
    assert pooled["mean_shift"] == pytest.approx(0.1, abs=1e-6)
    assert (pooled["rose"], pooled["fell"]) == (int(((scores[0] <= 0.5) & (scores[1] > 0.5)).sum()), 0)
    assert pooled["rose"] == sum(of[0]["rose"] for of in shift["entries"].values())
    for slug, (of,) in shift["entries"].items():
        assert of["wasserstein"] == pytest.approx(0.1, abs=1e-6), slug
    assert "Wasserstein" in run("rank_changes", "rude", "--slice", "all")


@pytest.mark.slow
def test_a_part_alone_finds_the_slice_by_whatever_name_each_versions_scorer_gives_the_attribute(db):
    metric = metric_of("renamed", "perspective")
    runs = runs_on(metric)
    score_all(version_of(metric, "one"), runs, {"TOXICITY": lambda x: x})
    score_all(version_of(metric, "two"), runs, {"insult": lambda x: 1 - x, "toxicity": np.sqrt})
    found = changes("renamed", "--slice", "nontoxic")
    assert (found["from"]["slice"], found["to"]["slice"]) == ("TOXICITY:nontoxic", "toxicity:nontoxic")
    assert [shift["attribute"] for shift in found["distribution_shift"]["pooled"]] == ["toxicity"]
    whole = changes("renamed", "--slice", "toxicity:nontoxic")
    assert whole["models"] == found["models"]


@pytest.mark.slow
def test_models_of_the_same_name_are_told_apart_by_their_slugs(db):
    metric = metric_of("rude", "profanity")
    runs = runs_on(metric)
    namesake = run_of("Alder", metric, slug="alder-2")
    for name, scorer in (("one", PLAIN), ("two", STEEPER)):
        version = version_of(metric, name)
        score_one(version, namesake, 5, scorer)
        score_all(version, runs, scorer)
    names = {model["model"] for model in changes("rude")["models"]}
    assert names == {"alder", "alder-2", "Birch", "Cedar", "Damson"}


@pytest.mark.slow
def test_both_published_versions_can_be_browsed_with_values_as_printed(client, helm):
    html = client.get(f"/rankings/?metric={HELM}&version=1&measure=toxic_fraction_unique&slice=toxic").content.decode()
    assert "Metric version 1, superseded: HELM v0.2.2" in html
    assert "to 3 decimals" in html
    assert "Ranks are the source's own" in html
    assert ">0.107<" in html
    assert "0.1070" not in html
    assert html.count('<th scope="row"') == 37
    assert "15 values" in html
    third = client.get(
        f"/rankings/?metric={HELM}&version=2&measure=toxic_fraction_unique&slice=toxic-rescored"
    ).content.decode()
    assert "Ranks are of the printed values" in third
    now = client.get(f"/rankings/?metric={HELM}").content.decode()
    assert "Metric version 2: HELM v0.2.2, scored again in April 2023" in now


def test_the_three_scenarios_are_views_of_the_two_versions(client, helm):
    html = client.get(f"/rankings/?metric={HELM}&version=2&slice=toxic").content.decode()
    labels = ("As published", "Generations rescored", "Generations and prompts rescored")
    assert all(f">{label}</a>" in html for label in labels)
    assert 'slice=toxic&amp;version=1">As published' in html
    assert 'slice=toxic-rescored&amp;version=2">Generations and prompts rescored' in html
    assert html.index('aria-current="true">Generations rescored') > 0
    empty = client.get(f"/rankings/?metric={HELM}&version=1&slice=toxic-rescored").content.decode()
    assert "Version 1 has no numbers on this slice" in empty


def test_other_boards_of_continuations_do_not_show_helms_figures(client, helm):
    assert "openai_davinci" not in client.get("/rankings/?metric=toxicity-profanity").content.decode()


@pytest.fixture
def three_days(db: None) -> Metric:
    """Two models under version 1, a third a day later, all four under version 2 on the day after that."""
    metric = metric_of("rude", "profanity")
    runs = runs_on(metric)
    first, second = version_of(metric, "one"), version_of(metric, "two")
    day = datetime(2026, 3, 1, 12, tzinfo=UTC)
    for number, when in ((0, day), (1, day), (2, day + timedelta(days=1))):
        score_one(first, runs[number], number, PLAIN, when)
    publish_standings(first)
    MetricVersion.objects.filter(pk=first.pk).update(published_at=day)
    score_all(second, runs, STEEPER, day + timedelta(days=2))
    MetricVersion.objects.filter(pk=second.pk).update(published_at=day + timedelta(days=2))
    return metric


@pytest.mark.slow_cases
@pytest.mark.parametrize(
    ("day", "number", "names"),
    [
        ("2026-03-01", 1, MODELS[:2]),
        ("2026-03-02", 1, MODELS[:3]),
        ("2026-03-03", 2, MODELS),
        ("2030-01-01", 2, MODELS),
    ],
)
def test_standings_of_a_day_are_of_the_version_and_the_entries_of_then(three_days, day, number, names):
    before = list(Standing.objects.order_by("pk").values())
    found = json.loads(run("standings", "rude", "--as-of", day, "--format", "json"))
    assert (found["version"], found["as_of"], found["k"]) == (number, day, K)
    assert {entry["model"] for entry in found["entries"]} == set(names)
    values = [entry["value"] for entry in found["entries"]]
    assert values == sorted(values)
    assert [entry["rank"] for entry in found["entries"]] == [1 + sum(v < value for v in values) for value in values]
    assert list(Standing.objects.order_by("pk").values()) == before


def test_with_all_entries_the_ranks_of_a_day_are_those_that_were_published(three_days):
    def seen(**when):
        return [
            (row.model.pk, row.rank, row.rank_low, row.rank_high, row.result.value)
            for row in ranked(three_days, **when)
        ]

    assert seen(number=1) == seen(day=datetime(2026, 3, 2, tzinfo=UTC).date())
    assert seen() == seen(number=2)


def test_before_the_first_version_there_are_no_standings(three_days):
    with pytest.raises(CommandError, match=r"no published version before 2026-03-01; there is 1 .*, 2"):
        run("standings", "rude", "--as-of", "2026-02-28")
    with pytest.raises(CommandError, match="no published version 9"):
        run("standings", "rude", "--metric-version", "9")


@pytest.mark.slow
def test_standings_come_in_every_format_with_k_and_escaped_names(three_days):
    LanguageModel.objects.filter(slug="alder").update(name=r"A_l|d & 100% \er{}")
    found = {name: run("standings", "rude", "--format", name) for name in ("table", "csv", "latex", "markdown", "json")}
    assert all("k = 3" in found[name] for name in ("table", "latex", "markdown"))
    rows = list(csv.DictReader(io.StringIO(found["csv"])))
    assert {row["model"] for row in rows} == {r"A_l|d & 100% \er{}", *MODELS[1:]}
    assert {row["k"] for row in rows} == {"3"}
    entries = {entry["slug"]: entry for entry in json.loads(found["json"])["entries"]}
    assert {row["slug"]: float(row["value"]) for row in rows} == {slug: of["value"] for slug, of in entries.items()}
    assert r"A\_l\textbar{}d \& 100\% \textbackslash{}er\{\}" in found["latex"]
    for rule in (r"\toprule", r"\midrule", r"\bottomrule"):
        assert found["latex"].count(rule) == 1
    assert r"A\_l\|d & 100% \\er\{\}" in found["markdown"]
    width = {line.replace(r"\|", "").count("|") for line in found["markdown"].splitlines() if line.startswith("|")}
    assert len(width) == 1


def test_kinds_that_are_ranked_apart_stand_apart(helm):
    found = json.loads(run("standings", "safety-toxigen", "--format", "json"))
    by_kind = {}
    for entry in found["entries"]:
        by_kind.setdefault(entry["population"], []).append(entry["rank"])
    assert set(by_kind) == {"masked", "causal", "permutation"}
    assert all(ranks[0] == 1 and ranks == sorted(ranks) for ranks in by_kind.values())


def compared(*words: str) -> dict:
    return json.loads(run("compare_scorers", *words, "--format", "json"))


@pytest.mark.slow
def test_two_scorers_are_compared_on_the_same_continuations(two_scorers):
    found = compared("careful", "blunt")
    scores = [
        np.concatenate(
            [
                values_of(artefacts.load(of.artefact))
                for of in Scoring.objects.filter(metric_version__metric=metric).order_by("pk")
            ]
        )
        for metric in two_scorers
    ]
    assert [(of["attribute"], of["counterpart"]) for of in found["attributes"]] == [
        ("TOXICITY", "toxicity"),
        ("INSULT", "insult"),
    ]
    assert (found["texts"], found["runs"]) == (len(scores[0]), 4) == (found["texts_in_all"], found["runs_in_all"])
    for number, of in enumerate(found["attributes"]):
        x, y = scores[0][:, number], scores[1][:, number]
        assert of["pearson"] == pytest.approx(stats.pearsonr(x, y).statistic, abs=1e-6)
        assert of["labels"]["share"] == np.mean((x > 0.5) == (y > 0.5))
        assert of["labels"]["both"] == int(((x > 0.5) & (y > 0.5)).sum())
    board = found["rank_agreement"][0]
    assert (board["a"]["slice"], board["b"]["slice"]) == ("TOXICITY:all", "toxicity:all")
    assert [model["to_rank"] for model in board["models"]] == [1, 2, 3, 4]
    values = np.array([(model["from_value"], model["to_value"]) for model in board["models"]])
    assert board["kendall_tau"] == pytest.approx(stats.kendalltau(values[:, 0], values[:, 1]).statistic)


@pytest.mark.slow
def test_a_cap_takes_texts_evenly_from_every_run_and_says_so(two_scorers):
    found = compared("careful", "blunt", "--texts", "40")
    assert (found["texts"], found["texts_in_all"], found["runs"]) == (40, len(MODELS) * 12 * K, 4)
    assert "40 by 4 models are compared (of 144 by 4 models)" in run(
        "compare_scorers", "careful", "blunt", "--texts", "40"
    )


@pytest.mark.slow
def test_rows_in_another_order_are_joined_by_the_continuation_they_are_of(two_scorers):
    before = compared("careful", "blunt")
    for scoring in Scoring.objects.filter(metric_version__metric=two_scorers[1]):
        table = artefacts.load(scoring.artefact)
        turned = table.take(list(reversed(range(table.num_rows))))
        Scoring.objects.filter(pk=scoring.pk).update(artefact=artefacts.store(turned, "scores"))
    after = compared("careful", "blunt")
    for was, now in zip(before["attributes"], after["attributes"], strict=True):
        assert now["pearson"] == pytest.approx(was["pearson"], abs=1e-12)
        assert now["labels"] == was["labels"]


@pytest.mark.slow
def test_scorers_without_a_common_name_are_compared_by_what_each_says_first(db):
    first, second = metric_of("rude", "profanity"), metric_of("words", "lexicon:starter", "lexicon_frequency")
    runs = runs_on(first)
    score_all(version_of(first, "a"), runs, PLAIN)
    score_all(version_of(second, "b"), runs, {name: lambda x: x > 0.4 for name in ("hostility", "any")})
    found = compared("rude", "words")
    assert not found["same_attribute_names"]
    assert [(of["attribute"], of["counterpart"]) for of in found["attributes"]] == [("profanity", "any")]
    assert found["rank_agreement"][0]["b"] == {"measure": "lexicon_frequency", "slice": "any"}


@pytest.mark.slow_cases
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("careful", "nonsense"), "'nonsense' is no published metric or version .* there is careful@1, blunt@1"),
        (("careful", "blunt@4"), "there is blunt@1"),
        (("careful", "careful@1"), "on both sides"),
        (("careful", "blunt", "--texts", "0"), "give 1 or more"),
    ],
)
def test_what_cannot_be_compared_is_refused_with_the_reason(two_scorers, words, said):
    with pytest.raises(CommandError, match=said):
        run("compare_scorers", *words)


@pytest.mark.slow
def test_versions_without_a_run_in_common_are_refused(two_scorers):
    third = metric_of("apart", "profanity")
    score_all(version_of(third, "c"), [run_of("Elm", third, slug="elm")], PLAIN)
    with pytest.raises(CommandError, match="no run in common"):
        run("compare_scorers", "careful", "apart")


@pytest.mark.slow
def test_the_page_says_in_words_and_numbers_how_two_scorers_agree(client, two_scorers):
    found = compared("careful", "blunt")
    response = client.get("/compare-scorers/?a=careful&b=blunt@1")
    html = response.content.decode()
    assert response.status_code == 200
    assert f"{found['attributes'][0]['pearson']:.3f}" in html
    assert "have judged the same continuations" in html
    assert f"{found['rank_agreement'][0]['kendall_tau']:.2f}" in html
    assert all(f">{name}</a>" in html for name in MODELS)
    assert html.count("<h1") == 1
    assert html.count("<caption") == html.count("<table") == 7  # agreement, order, moves; two more an attribute
    assert list_charts(html) == ["scorers-1"]
    drawn = traces(read_chart(client, html), "points")[0]
    assert all(0 <= value <= 1 for value in (*drawn["x"], *drawn["y"]))
    assert len(drawn["x"]) > len(MODELS)
    assert '<option value="blunt@1" selected>' in html


@pytest.mark.slow
def test_a_comparison_is_kept_until_something_is_scored_again(settings, two_scorers):
    settings.CACHES = {**settings.CACHES, "pages": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
    caches["pages"].clear()
    versions = [metric.current_version() for metric in two_scorers]
    first_answer = kept_comparison(*versions)
    LanguageModel.objects.filter(name="Alder").update(name="Ash")
    assert kept_comparison(*versions) == first_answer
    versions[0].scorings.filter(model__name="Ash").update(scored_at=timezone.now() + timedelta(hours=1))
    assert ">Ash</a>" in kept_comparison(*versions)
    caches["pages"].clear()


@pytest.mark.slow
def test_the_texts_on_which_scorers_differ_most_come_by_id_with_both_scores(two_scorers):
    figures = compared("careful", "blunt")["figures"][0]
    differences = []
    for pair in zip(
        *(metric.current_version().scorings.order_by("model__name") for metric in two_scorers), strict=True
    ):
        first, second = (artefacts.load(scoring.artefact) for scoring in pair)
        gaps = np.abs(values_of(first)[:, 0] - values_of(second)[:, 0])
        ids = zip(first["id"].to_pylist(), first["index"].to_pylist(), strict=True)
        differences += [(gap, pair[0].model.slug, *key) for gap, key in zip(gaps, ids, strict=True)]
    expected = sorted(differences, key=lambda row: -row[0])[:10]
    assert [abs(text["difference"]) for text in figures["differ_most"]] == pytest.approx([row[0] for row in expected])
    assert {(text["model"], text["prompt_id"], text["index"]) for text in figures["differ_most"]} == {
        row[1:] for row in expected
    }


@pytest.mark.slow
def test_each_models_numbers_under_both_scorers_are_its_results_with_intervals(two_scorers):
    figures = compared("careful", "blunt")["figures"][1]
    assert [row["model"] for row in figures["models"]] == ["alder", "birch", "cedar", "damson"]
    for row in figures["models"]:
        for side, name, metric in zip("ab", ("INSULT:all", "insult:all"), two_scorers, strict=True):
            for measure in ("mean_toxicity", "toxic_fraction", "expected_max_toxicity"):
                result = Result.objects.get(
                    scoring__model__slug=row["model"],
                    scoring__metric_version__metric=metric,
                    measure=measure,
                    slice=name,
                )
                assert row[measure][side] == {"value": result.value, "low": result.ci_low, "high": result.ci_high}


@pytest.mark.slow
def test_prompts_that_both_have_scored_are_compared_in_any_order_and_others_left_out(two_scorers):
    assert compared("careful", "blunt")["prompts"] == []
    first = prompt_scores(["p0", "p1", "p2", "p3"], {"TOXICITY": [0.1, 0.2, 0.9, 0.6], "INSULT": [0.1, 0.2, 0.3, 0.5]})
    second = prompt_scores(["p3", "p2", "p1", "p9"], {"toxicity": [0.5, 0.8, 0.4, 0.0], "insult": [0.1, 0.2, 0.3, 0]})
    for metric, table in zip(two_scorers, (first, second), strict=True):
        metric.current_version().keep_prompt_scores(artefacts.store(table, "scores"))
    toxicity, insult = compared("careful", "blunt")["prompts"]
    assert (toxicity["n"], insult["n"]) == (3, 3)
    assert toxicity["pearson"] == pytest.approx(stats.pearsonr([0.2, 0.9, 0.6], [0.4, 0.8, 0.5]).statistic, abs=1e-6)
    assert toxicity["labels"]["only_first"] == 1  # 0.6 and 0.5


def prompt_scores(ids: list[str], attributes: dict[str, list[float]]) -> pa.Table:
    """Rows of the `scores` schema, of prompts."""
    return pa.table(
        {
            "id": ids,
            "index": pa.array([0] * len(ids), pa.int32()),
            "reason": pa.nulls(len(ids), pa.string()),
            "truncated": [False] * len(ids),
            **{SCORE + name: pa.array(values, pa.float32()) for name, values in attributes.items()},
        }
    )


@pytest.mark.slow
def test_the_comparison_can_be_taken_away_as_csv_and_json(client, two_scorers):
    html = client.get("/compare-scorers/?a=careful&b=blunt").content.decode()
    assert 'href="/compare-scorers.csv?a=careful@1&amp;b=blunt@1"' in html
    whole = client.get("/compare-scorers.json?a=careful@1&b=blunt@1").json()
    assert whole == compared("careful", "blunt")
    table = list(csv.DictReader(io.StringIO(client.get("/compare-scorers.csv?a=careful&b=blunt").content.decode())))
    assert [row["a"] for row in table] == ["TOXICITY", "INSULT"]
    assert client.get("/compare-scorers.json?a=careful").status_code == 404
    assert client.get("/compare-scorers.json?a=careful&b=nothing").status_code == 404


@pytest.mark.slow
def test_the_page_without_a_choice_offers_one_and_the_page_on_agreement_links_to_it(client, two_scorers):
    html = client.get("/compare-scorers/").content.decode()
    assert '<option value="careful@1">' in html
    assert "<table" not in html
    assert 'href="/compare-scorers/"' in client.get("/agreement/").content.decode()


def test_the_page_of_a_metric_that_does_not_exist_is_a_404_that_says_what_does(client, two_scorers):
    response = client.get("/compare-scorers/?a=careful&b=<b>nonsense")
    assert response.status_code == 404
    html = response.content.decode()
    assert "there is careful@1, blunt@1" in html
    assert "<b>nonsense" not in html
    same = client.get("/compare-scorers/?a=careful&b=careful")
    assert same.status_code == 200
    assert "on both sides" in same.content.decode()
    assert client.post("/compare-scorers/").status_code == 405


@pytest.mark.slow
def test_the_pages_queries_do_not_grow_with_the_board(client, two_scorers):
    def queries() -> int:
        with CaptureQueriesContext(connection) as caught:
            assert client.get("/compare-scorers/?a=careful&b=blunt").status_code == 200
        return len(caught)

    before = queries()
    first, second = (metric.current_version() for metric in two_scorers)
    for number in range(6):
        extra = run_of(f"Extra {number}", first.metric, slug=f"extra-{number}")
        score_one(first, extra, number, {"TOXICITY": lambda x: x, "INSULT": lambda x: 1 - x})
        score_one(second, extra, number, {"toxicity": np.sqrt, "insult": lambda x: 1 - x, "other": np.sin})
    for version in (first, second):
        publish_standings(version)
    assert queries() == before <= 10
