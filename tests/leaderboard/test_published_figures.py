"""Figures of papers: each score is on its board as printed, the rest has its page, and contradictions are stated."""

import csv
import re
from collections import Counter, defaultdict
from decimal import Decimal
from statistics import mean

import numpy as np
import pytest
from django.utils.text import slugify

from leaderboard.models import (
    AuditEvent,
    LanguageModel,
    Metric,
    MetricVersion,
    Provenance,
    Result,
    Run,
    Scoring,
    Standing,
)
from leaderboard.queries.papers import papers
from leaderboard.rankings.places import place_now
from leaderboard.services.evaluate import MetricUnavailable, check_metric
from leaderboard.services.figures import estimate
from leaderboard.services.published import FOLDER, PUBLICATIONS, seed_published
from leaderboard.services.upgrade import catch_up_all
from scoring.metrics.safety import DISTILLED
from tests.leaderboard.conftest import seed_figures
from tests.leaderboard.test_history import page, said

pytestmark = [pytest.mark.django_db, pytest.mark.either_database]

NEW_METRICS = ("rtp-perspective", "rtp-detoxification", "rtp-detoxify-multilingual", "rtp-lexicon-farrell")
TABLES = [table.file for paper in papers() for table in paper.tables]
GRIDS = {"bert": ("BERT-large-uncased", "average-distilled-bert"), "gpt2": ("GPT-2", "average-distilled-gpt2")}
TOXICITY = {
    "expected_max_toxicity": "expected_max_toxicity",
    "toxicity_probability": "toxicity_probability",
    "std_of_max_toxicity": "expected_max_toxicity_sd",
    "toxic_frac": "toxic_fraction",
    "EML": "expected_max_toxicity",
    "BCF": "toxic_fraction",
}
HELM = {"max_toxicity_probability": "toxicity_probability", "toxic_frac": "toxic_fraction_unique"}
PARTS = {"full": "all", "toxic": "toxic", "nontoxic": "nontoxic"}
ORIGINAL = ("published", "helm_v0.2.2")
MEAN = "mean of 4 benchmarks"


@pytest.fixture
def figures(db: None) -> None:
    seed_figures()


def rows(name: str) -> list[dict[str, str]]:
    with (FOLDER / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def hosseini(name: str) -> str:
    return f"hosseini-2023-{slugify(name)}"


def student(grid: str, row: dict[str, str]) -> str:
    teacher, _ = GRIDS[grid]
    name = teacher if row["role"] == "teacher" else f"distilled-{grid}-l{row['layers']}-h{row['hidden_dim']}"
    return hosseini(name)


def scenario(row: dict[str, str]) -> tuple[int, str]:
    """The version of the metric, and the slice."""
    suffix = "-rescored" if "prompts" in row["scoring"] else ""
    return 1 if row["scoring"] in ORIGINAL else 2, PARTS[row["split"]] + suffix


def misogyny(row: dict[str, str], value: float) -> tuple[object, ...]:
    if row.get("scorer", "Detoxify-multilingual") == "Detoxify-multilingual":
        place = ("rtp-detoxify-multilingual", 1, TOXICITY[row["metric"]], f"{row['attribute']}:all", value / 100)
    else:
        place = ("rtp-lexicon-farrell", 1, "lexicon_frequency", row["attribute"], value)
    return (*place[:2], f"snoswell-2023-{row['model'].lower()}", *place[2:])


def toxicity(metric: str, slug: str, row: dict[str, str], measures: dict[str, str]) -> tuple[object, ...]:
    version, part = scenario(row)
    return metric, version, slug, measures[row["metric"]], part, float(row["value"])


def toxigen(row: dict[str, str], measure: str, name: str, value: str) -> tuple[object, ...]:
    return "safety-toxigen", 1, hosseini(row["model"]), measure, name, float(value)


def stereoset(row: dict[str, str], measure: str) -> tuple[object, ...]:
    name = "all" if row["task"] == "overall" else f"{row['task']}:{row['domain']}".removesuffix(":overall")
    return "stereoset", 1, f"nadeem-2021-{row['model']}", measure, name, float(row[measure])


def total_effect(row: dict[str, str]) -> tuple[object, ...]:
    measure = "total_effect_filtered" if row["filtered"] == "yes" else "total_effect"
    return (
        *(row["evaluation_set"], 1, f"vig-2020-{row['model']}", measure, row["statistic"]),
        float(row["total_effect"]),
    )


# Of each file: where a row is on the board, as metric, version, model, measure, slice and value.
SCORES = {
    "safety_scores_toxigen": lambda r: toxigen(r, "safety_score", r["target_group"], r["safety_score_full"]),
    "safety_scores_implicit_hate": lambda r: (
        "safety-implicit-hate", 1, hosseini(r["model"]), "safety_score", "all", float(r["safety_score"]),
    ),
    "regard_scores": lambda r: (
        "regard", 1, hosseini(r["model"]), "regard_score", r["target_group"] or "men", float(r["regard_score"]),
    ),
    "regard_safety_scores": lambda r: (
        "regard", 1, hosseini(r["model"]), "regard_safety_score", r["target_group"] or "men", float(r["safety_score"]),
    ),
    "distilled_bert_safety": lambda r: (
        "safety-toxigen", 1, student("bert", r), "safety_score", GRIDS["bert"][1], float(r["safety_score"]),
    ),
    "distilled_gpt2_safety": lambda r: (
        "safety-toxigen", 1, student("gpt2", r), "safety_score", GRIDS["gpt2"][1], float(r["safety_score"]),
    ),
    "distilled_gpt2_perplexity": lambda r: (
        "safety-toxigen", 1, student("gpt2", r), "benchmark_perplexity", f"perplexity:{r['benchmark']}",
        float(r["perplexity"]),
    ),
    "misogyny_main": lambda r: misogyny(r, float(r["mean_percent"])),
    "misogyny_detoxify": lambda r: misogyny(r, float(r["mean_percent"])),
    "misogyny_farrell_lexicon": lambda r: misogyny(
        {**r, "scorer": "Farrell", "attribute": r["category"].lower().replace(" ", "_")}, float(r["mean_percent"])
    ),
    "rtp_models_rescored": lambda r: toxicity("rtp-perspective", f"gehman-2020-{slugify(r['model'])}", r, TOXICITY),
    "detoxification_methods_rescored": lambda r: toxicity(
        "rtp-detoxification", f"pozzobon-2023-{slugify(r['method'])}", r, TOXICITY
    ),
    "stereoset_dev": lambda r: stereoset(r, "icat"),
    "total_effects": total_effect,
    "helm_toxicity": lambda r: toxicity(
        "rtp-helm-perspective",
        "helm-" + "".join(c if c.isalnum() else "-" for c in r["model"].lower()),
        r,
        TOXICITY | HELM,
    ),
}  # fmt: skip
# By file, how many cells the board has otherwise, each of which a test below states.
CONTRADICTED = {"distilled_gpt2_perplexity": 2, "misogyny_main": 1}


def on_board() -> dict[tuple[object, ...], Result]:
    results = Result.objects.select_related("scoring__model", "scoring__metric_version__metric")
    return {
        (
            result.scoring.metric_version.metric.slug,
            result.scoring.metric_version.number,
            result.scoring.model.slug,
            result.measure,
            result.slice,
        ): result
        for result in results
    }


@pytest.mark.slow
def test_every_score_of_a_model_is_on_its_board_as_printed(figures):
    results = on_board()
    for name, place in SCORES.items():
        cells = [place(row) for row in rows(name)]
        assert len(cells) == len(rows(name)) > 0
        others = [cell for cell in cells if results[cell[:-1]].value != pytest.approx(cell[-1], abs=1e-12)]
        assert len(others) == CONTRADICTED.get(name, 0), (name, others)
        assert not any(results[cell[:-1]].derived for cell in cells), name


@pytest.mark.slow
def test_the_boards_hold_nothing_that_no_file_prints(figures):
    places = {place(row)[:-1] for name, place in SCORES.items() for row in rows(name)}
    averages = [row for row in rows("safety_scores_toxigen_averages") if row["over"] == "model"]
    for row in averages:
        places.add(toxigen(row, "safety_score", "average", "0")[:-1])
    for row in rows("log_perplexity"):
        for key in ("", "_sd"):
            places.add(toxigen(row, f"log_perplexity_{row['label']}{key}", "average", "0")[:-1])
    for measure in ("language_modelling_score", "stereotype_score"):
        places |= {stereoset(row, measure)[:-1] for row in rows("stereoset_dev")}
    assert places == {key for key, result in on_board().items() if not result.derived}


@pytest.mark.slow
def test_each_measure_of_stereoset_is_on_the_board_and_icat_follows_from_the_others(figures):
    results = on_board()
    for row in rows("stereoset_dev"):
        cells = [stereoset(row, key) for key in ("icat", "language_modelling_score", "stereotype_score")]
        icat, sense, stereotype = (results[cell[:-1]].value for cell in cells)
        assert [icat, sense, stereotype] == [cell[-1] for cell in cells]
        assert icat == pytest.approx(sense * min(stereotype, 100 - stereotype) / 50)


def test_a_mean_with_its_margin_is_a_figure_with_an_interval_exact_to_the_last_digit():
    figure = estimate("GPT-2", "toxic_fraction", "all", "12.3", "0.4", Decimal(100))
    assert (figure.value, figure.ci_low, figure.ci_high) == (0.123, 0.119, 0.127)


@pytest.mark.slow
def test_intervals_that_a_paper_prints_are_on_the_board(figures):
    results = on_board()
    for name in ("misogyny_detoxify", "misogyny_farrell_lexicon"):
        for row in rows(name):
            *key, value = SCORES[name](row)
            scale = 100 if name == "misogyny_detoxify" else 1
            result = results[tuple(key)]
            half = float(row["ci95"]) / scale
            assert (result.ci_low, result.ci_high) == pytest.approx((value - half, value + half), abs=1e-12)


@pytest.mark.slow
def test_numbers_are_shown_with_the_digits_of_their_source(client, figures):
    html = said(page(client, "/rankings/?metric=rtp-detoxify-multilingual"))
    assert "0.4935" in html
    assert "0.4911" in html  # the lower end of its interval: 49.35 - 0.24
    assert "9.40" in said(page(client, "/rankings/?metric=rtp-lexicon-farrell"))
    assert "0.77" in said(page(client, "/rankings/?metric=rtp-perspective&version=1&slice=toxic"))


def test_the_mean_perplexity_is_the_mean_of_the_benchmarks_where_the_paper_errs(client, figures):
    benchmarks = defaultdict(list)
    for row in rows("distilled_gpt2_perplexity"):
        if row["benchmark"] != MEAN:
            benchmarks[student("gpt2", row)].append(float(row["perplexity"]))
    wrong_cells = []
    for row in rows("distilled_gpt2_perplexity"):
        if row["benchmark"] == MEAN:
            value = Result.objects.get(
                scoring__model__slug=student("gpt2", row), measure="benchmark_perplexity", slice=f"perplexity:{MEAN}"
            ).value
            assert value == pytest.approx(mean(benchmarks[student("gpt2", row)]), abs=0.01)
            if value != float(row["perplexity"]):
                wrong_cells.append((row["layers"], row["hidden_dim"], row["perplexity"], f"{value:.2f}"))
    assert wrong_cells == [("2", "128", "172.28", "179.95"), ("10", "256", "75.48", "70.11")]
    for address in ("/rankings/?metric=safety-toxigen&provenance=published", "/published/distilled_gpt2_perplexity/"):
        text = said(page(client, address))
        for layers, width, wrong, right in wrong_cells:
            assert f"{layers} layers, hidden size {width} it prints {wrong}, the mean is {right}" in text


@pytest.mark.slow
def test_where_two_tables_print_one_quantity_otherwise_the_board_says_which_it_has(client, figures):
    (main,) = [row for row in rows("misogyny_main") if row["model"] == "Incels" and row["metric"] == "EML"]
    result = on_board()[misogyny(main, 0.0)[:-1]]
    (detail,) = [
        row
        for row in rows("misogyny_detoxify")
        if (row["model"], row["metric"], row["attribute"]) == ("Incels", "EML", "toxicity")
    ]
    assert result.value == pytest.approx(float(detail["mean_percent"]) / 100)
    assert main["mean_percent"] != detail["mean_percent"]
    for address in ("/rankings/?metric=rtp-detoxify-multilingual", "/models/snoswell-2023-incels/", "/published/"):
        text = said(page(client, address))
        assert f"{main['mean_percent']}% in Table 1 and {detail['mean_percent']}% in Table 2" in text


def test_what_the_pages_say_of_contradictions_follows_from_the_data(client, figures):
    text = said(page(client, "/published/"))
    counts = {
        row["scoring"]: int(row["value"])
        for row in rows("rtp_rescored_stats")
        if (row["statistic"], row["subset"]) == ("prompt_count", "toxic prompts")
    }
    before, after = counts["published_2020_09"], counts["rescored_2023_02"]
    assert f"fell by 49%; Table 1 ({before:,} to {after:,}) gives {1 - after / before:.1%}" in text
    regard = {
        row["model"]: float(row["regard_score"]) for row in rows("regard_scores") if row["target_group"] == "women"
    }
    women = {
        row["model"]: float(row["safety_score_full"])
        for row in rows("safety_scores_toxigen")
        if row["target_group"] == "women"
    }
    r = np.corrcoef([regard[name] for name in regard], [women[name] for name in regard])[0, 1]
    assert f"(Women, 7 models) give {r:.2f}" in text
    assert f"{r:.2f}" == "0.21"
    values = {(r["model"], r["scoring"]): float(r["value"]) for r in rows("helm_toxicity")
              if (r["split"], r["metric"]) == ("toxic", "expected_max_toxicity")}  # fmt: skip
    changes = [
        abs(value - values[name, "rescored_generations_2023_04"])
        for (name, scoring), value in values.items()
        if scoring == "helm_v0.2.2"
    ]
    assert f"the table {mean(changes):.4f}" in text
    (example,) = [r for r in rows("safety_scores_toxigen_gpt2_example") if r["target_group"] == "middle-eastern"]
    units = (float(example["safety_score_full"]) - float(example["safety_score_readme_table"])) * (
        int(example["n_harmful"]) * int(example["n_benign"])
    )
    assert round(units) == 1
    assert f"has {float(example['safety_score_full']):.6f} in the repository's example" in text


def test_the_families_of_table_2_are_the_means_of_table_9_with_distilled_models_among_them():
    members = {
        "BERT-uncased": ("BERT-large-uncased", "BERT-base-uncased", "DistilBERT-base-uncased", "mobileBERT"),
        "BERT-cased": ("BERT-large-cased", "BERT-base-cased", "DistilBERT-base-cased"),
        "RoBERTa": ("RoBERTa-large", "RoBERTa-base", "DistilRoBERTa"),
        "GPT-2": ("GPT-2", "GPT-2-medium", "GPT-2-large", "GPT-2-xl", "DistilGPT-2"),
    }
    values = {(row["model"], row["label"]): row for row in rows("log_perplexity")}
    for row in rows("log_perplexity_families"):
        names = members.get(row["family"]) or {n for n, _ in values if n.startswith(row["family"].split("-")[0])}
        for column in ("mean", "std"):
            average = mean(float(values[name, row["label"]][column]) for name in names)
            assert average == pytest.approx(float(row[column]), abs=0.0051), (row["family"], column)


def test_contradictions_stand_beside_published_numbers_alone(client, board):
    assert "contradicts itself" in said(page(client, "/rankings/?metric=safety-toxigen"))
    assert "contradicts itself" not in said(page(client, "/rankings/?metric=safety-starter&provenance=measured"))


def test_every_file_of_figures_has_its_page_and_its_download(client, figures):
    counted_here = {"toxigen_toxicities"}
    assert {path.stem for path in FOLDER.glob("*.csv")} - counted_here == set(TABLES)
    index = page(client, "/published/")
    for name in TABLES:
        assert f'href="/published/{name}/"' in index
        assert f'href="/published/{name}.csv"' in index
        response = client.get(f"/published/{name}.csv")
        assert response.content == (FOLDER / f"{name}.csv").read_bytes()
        assert response.headers["Content-Type"].startswith("text/csv")


@pytest.mark.slow_cases
@pytest.mark.parametrize("name", TABLES)
def test_the_page_of_a_table_has_every_value_as_printed(client, figures, name, django_assert_max_num_queries):
    with django_assert_max_num_queries(3):
        html = page(client, f"/published/{name}/")
    text = said(html)
    source_rows = rows(name)
    for row in source_rows:
        for column, value in row.items():
            if value and not column.startswith("source"):
                assert value.replace("_", " ") in text.replace("_", " "), (column, value)
    assert html.count("<tr>") - html.count("<thead>") == len(source_rows)
    for source in {row["source"] for row in source_rows if "source" in row}:
        assert source in text
    assert f'href="/published/{name}.csv"' in html


def test_a_column_is_set_as_numbers_where_it_holds_nothing_else(client, figures):
    heads = re.findall(r'<th scope="col"(?:\s+class="(\w+)")?>([^<]+)</th>', page(client, "/published/correlations/"))
    assert {label for look, label in heads if look == "num"} == {"Pearson r"}
    assert {label for look, label in heads if not look} >= {"Population", "Variable a", "Source"}


def test_the_distance_of_each_attribute_of_perspective_is_shown(client, figures):
    distances = {
        row["attribute"]: row["value"]
        for row in rows("rtp_rescored_stats")
        if row["statistic"] == "wasserstein_distance"
    }
    assert len(distances) == 8
    text = said(page(client, "/published/rtp_rescored_stats/").split("wasserstein distance", 1)[1])
    for attribute, value in distances.items():
        assert f"{attribute} published_2020_09 vs rescored_2023_02 {value}" in text


def test_the_pages_are_found(client, figures):
    for address in ("/about/", "/docs/", "/rankings/?metric=regard&provenance=published"):
        assert 'href="/published/"' in page(client, address)
    index = page(client, "/published/")
    assert 'href="/rankings/?metric=rtp-detoxification&amp;provenance=published"' in index
    assert 'href="/agreement/published/"' in index


def test_an_unknown_table_is_a_404_that_says_where_to_look(client, figures):
    for address in ("/published/nothing/", "/published/nothing.csv"):
        response = client.get(address)
        assert response.status_code == 404
        assert "/published/ lists" in said(response.content.decode())
    assert client.get("/published/README/").status_code == 404
    assert client.post("/published/").status_code == 405


def test_the_list_of_papers_is_there_before_the_board_has_any_metric(client, db):
    text = said(page(client, "/published/"))
    assert "Snoswell et al. 2023" in text


@pytest.mark.slow
def test_students_are_ranked_with_their_teacher_and_table_1_stays_as_it_is(client, figures):
    version = Metric.objects.get(slug="safety-toxigen").current_version(Provenance.PUBLISHED)
    standings = version.standings.filter(measure="safety_score", population="all")
    sizes = Counter(standings.values_list("slice", flat=True))
    assert (sizes["average"], sizes[DISTILLED[0]], sizes[DISTILLED[1]]) == (24, 25, 24)
    for grid, (_, name) in GRIDS.items():
        scores = [float(row["safety_score"]) for row in rows(f"distilled_{grid}_safety")]
        ranks = sorted(1 + sum(other > score for other in scores) for score in scores)
        assert sorted(standings.filter(slice=name).values_list("rank", flat=True)) == ranks
    text = said(
        page(client, f"/rankings/?metric=safety-toxigen&provenance=published&measure=safety_score&slice={DISTILLED[0]}")
    )
    assert "Safety score, Average, distilled BERT" in text
    assert "Distilled-BERT L=2 H=128" in text
    main = page(client, "/rankings/?metric=safety-toxigen&provenance=published&measure=safety_score&kind=all")
    assert "Distilled-BERT" not in said(main.split("<tbody>", 1)[1])
    assert "not printed" not in main
    heat_map = page(client, "/demographics/?metric=safety-toxigen")
    assert "24 models" in said(heat_map)
    assert "Distilled-BERT" not in heat_map


def test_distilled_models_have_the_architecture_of_their_table(figures):
    for grid in GRIDS:
        for row in rows(f"distilled_{grid}_safety"):
            model = LanguageModel.objects.get(slug=student(grid, row))
            assert (model.layers, model.heads, model.hidden_size) == (
                int(row["layers"]),
                int(row["attention_heads"]),
                int(row["hidden_dim"]),
            )
    model = LanguageModel.objects.get(slug="hosseini-2023-distilled-gpt2-l2-h128")
    assert model.parameters == 6_960_000


def test_the_page_of_a_student_has_its_safety_first_and_its_perplexities_last(client, figures):
    text = said(page(client, "/models/hosseini-2023-distilled-gpt2-l2-h128/"))
    labels = [
        "Average, distilled GPT-2",
        *(f"Perplexity, {name}" for name in ("LAMBADA", "PTB", "WikiText103", "WikiText2", MEAN)),
    ]
    places = [text.index(label) for label in labels]
    assert places == sorted(places)
    teacher = said(page(client, "/models/hosseini-2023-gpt-2/"))
    assert teacher.index("Women") < teacher.index("Perplexity, LAMBADA")


@pytest.mark.slow
def test_models_of_table_13_get_the_architecture_that_they_lack(figures):
    models = LanguageModel.objects.filter(slug="hosseini-2023-gpt-2-xl")
    models.update(layers=None, heads=None, hidden_size=7)
    take_back(MetricVersion.objects.filter(metric__slug="regard"))
    seed_published()
    # What is there stays, whoever entered it.
    assert models.values_list("layers", "heads", "hidden_size").get() == (48, 25, 7)


def test_regard_is_ranked_by_group_and_gives_no_place_in_the_metric(client, figures):
    metric = Metric.objects.get(slug="regard")
    scores = [float(row["regard_score"]) for row in rows("regard_scores") if row["target_group"] == "women"]
    standings = Standing.objects.filter(metric_version__metric=metric, measure="regard_score", slice="women")
    assert sorted(standings.values_list("value", flat=True)) == sorted(scores)
    model = LanguageModel.objects.get(slug="hosseini-2023-gpt-2")
    assert place_now(model, metric) is None, "the paper prints no average over the groups"
    assert "not ranked" in page(client, "/badges/hosseini-2023-gpt-2/regard.svg")
    text = said(page(client, "/demographics/?metric=regard"))
    assert "Men" in text
    assert place_now(model, Metric.objects.get(slug="safety-toxigen")) is not None


@pytest.mark.slow
def test_scorings_before_and_after_are_two_versions_of_one_metric(client, figures):
    for slug in ("rtp-perspective", "rtp-detoxification"):
        first, second = MetricVersion.objects.filter(metric__slug=slug).order_by("number")
        assert (first.status, second.status) == ("superseded", "current")
        assert "scored again by Pozzobon et al. 2023" in second.source
        assert client.get(f"/history/?metric={slug}").status_code == 200
    slices = set(Standing.objects.filter(metric_version=second).values_list("slice", flat=True))
    assert slices == {"all", "nontoxic", "all-rescored", "toxic-rescored", "nontoxic-rescored"}
    assert "All prompts, rescored" in said(page(client, "/rankings/?metric=rtp-detoxification&slice=all-rescored"))


@pytest.mark.slow
def test_metrics_that_cannot_be_measured_here_queue_no_work(client, figures):
    for slug in NEW_METRICS:
        with pytest.raises(MetricUnavailable, match="is not here"):
            check_metric(Metric.objects.get(slug=slug))
        html = page(client, f"/rankings/?metric={slug}")
        assert "badge-published" in html
        assert client.get(f"/metrics/{slug}/").status_code == 200
    assert catch_up_all() == []
    assert not Run.objects.exists()
    assert not Scoring.objects.exclude(state="done").exists()


@pytest.mark.slow
def test_seeding_again_changes_nothing(figures):
    def state() -> list[object]:
        models = (LanguageModel, MetricVersion, Scoring, Result, Standing, AuditEvent)
        return [list(model.objects.order_by("pk").values()) for model in models]

    before = state()
    seed_published()
    assert state() == before


@pytest.mark.slow
def test_a_board_that_was_seeded_before_gets_what_is_new_and_keeps_the_rest(figures):
    complete = {key: result.value for key, result in on_board().items()}
    ranks = ranks_now()
    old_publications = ("safety-toxigen", "safety-implicit-hate", "rtp-helm-perspective")
    take_back(MetricVersion.objects.exclude(metric__slug__in=old_publications))
    students = LanguageModel.objects.filter(name__startswith="Distilled-B") | LanguageModel.objects.filter(
        name__startswith="Distilled-G"
    )
    Standing.objects.filter(slice__in=DISTILLED).delete()
    Result.objects.filter(slice__in=DISTILLED).delete()
    Result.objects.filter(measure="benchmark_perplexity").delete()
    Scoring.objects.filter(model__in=students).delete()
    LanguageModel.objects.exclude(scorings__isnull=False).delete()
    assert LanguageModel.objects.count() == 24 + 37
    old_results = list(Result.objects.order_by("pk").values())
    seed_published()
    assert {key: result.value for key, result in on_board().items()} == complete
    assert ranks_now() == ranks
    kept_results = Result.objects.filter(pk__in=[row["id"] for row in old_results])
    assert list(kept_results.order_by("pk").values()) == old_results
    event = AuditEvent.objects.filter(verb="publish version", subject="metric safety-toxigen").latest("pk")
    assert event.detail["entries"] == 24 + 24 + 23


def take_back(versions) -> None:
    """Remove versions with all they hold, as if they had never been entered."""
    pks = list(versions.values_list("pk", flat=True))
    Standing.objects.filter(metric_version__in=pks).delete()
    Result.objects.filter(scoring__metric_version__in=pks).delete()
    Scoring.objects.filter(metric_version__in=pks).delete()
    MetricVersion.objects.filter(pk__in=pks).delete()


def ranks_now() -> dict[tuple[object, ...], int]:
    fields = ("metric_version__metric__slug", "metric_version__number", "measure", "slice", "population", "model__slug")
    return {row[:-1]: row[-1] for row in Standing.objects.values_list(*fields, "rank")}


def test_each_publication_names_its_paper(figures):
    sources = {(publication.metric, publication.source) for publication in PUBLICATIONS}
    assert len(sources) == len(PUBLICATIONS)
    for metric, source in sources:
        assert "arXiv 2" in source
        assert MetricVersion.objects.filter(metric__slug=metric, source=source, provenance="published").count() == 1
