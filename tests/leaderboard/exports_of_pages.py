"""The files of pages: what each is written from."""

from leaderboard.api.standings import RankedEntry
from leaderboard.models import EvaluationSet, LanguageModel, MetricVersion, Result, Run, Scoring, Standing, Succession
from leaderboard.queries.agreement import PROPERTIES, MeasureColumn
from leaderboard.queries.coefficients import COEFFICIENTS, CoefficientCell
from leaderboard.queries.comparison import Comparison, RankAgreement
from leaderboard.queries.scenarios import PromptLabels, ScenarioChange, ScenarioComparison, ScenarioModel, ScenarioView
from leaderboard.queries.scorer_figures import MEASURES, AttributeFigures, ModelFigures, TextScores
from leaderboard.queries.scorer_ranks import JudgedBoard, JudgedEntry
from leaderboard.queries.succession import EntryReport, SuccessionReport
from leaderboard.rankings.changes import Side
from leaderboard.rankings.ranking import Row
from scoring.metrics.agreement import AttributeAgreement, LabelAgreement
from scoring.statistics.correlations import Correlation
from scoring.statistics.misclassification import CorrectedShare
from scoring.statistics.rank_changes import RankChanges
from scoring.statistics.rank_sensitivity import RankSensitivity
from scoring.succession import EntryValues, OrderComparison, ReversedPair
from tests.leaderboard.exports import Export, Source
from tests.leaderboard.test_completeness import HANDLING, KEYS, TIMING, WORK_FIELDS

HANDLED = WORK_FIELDS | TIMING
STEERING = dict.fromkeys(("publications", "ranges_due", "created_at"), "of the board, not of the numbers")
# What a file says of a version: enough to find it; its manifest has what it is made of.
VERSION = Source(
    MetricVersion,
    {"number": "version", "protocol": "k"},
    {
        **KEYS,
        **STEERING,
        **dict.fromkeys(
            ("attributes", "undeclared", "epoch", "formula_version", "most_missing", "chat_protocol", "prompt_scores"),
            "the manifest",
        ),
        "fallback_measure": "`measure` is the one that is shown",
        "opened_because": "the public change log and the page of drift",
    },
)
CHANGES = Source(RankChanges, left_out={"orders": "the ranks of `models`"})
OF_CHANGES = {"changed_ranks", "changed_values", "n_models", "mean_abs_difference", "largest_difference"}
OF_CHANGES |= {"kendall_tau", "kendall_tau_interval", "spearman", "spearman_interval"}
COEFFICIENT_SOURCES = (
    Source(
        Correlation,
        {"value": tuple(COEFFICIENTS)}
        | {end: tuple(f"{name}_{end}" for name in COEFFICIENTS) for end in ("low", "high")},
    ),
    Source(
        CoefficientCell,
        {"correlation": tuple(COEFFICIENTS), "p": tuple(f"{name}_p_holm" for name in COEFFICIENTS)},
    ),
)


def measure_column(prefix: str) -> Source:
    """What a measure is written from, in columns that begin with `prefix`."""
    names = {"versions": f"{prefix}version", "measure": f"{prefix}measure", "slice": f"{prefix}slice"}
    return Source(MeasureColumn, names, {"derived": "models.csv says it of each value"})


ONE_COLUMN = "careful/mean_toxicity/profanity:all"
AGREEMENT = (
    Export(
        "/agreement/correlations.csv",
        sources=(measure_column("a_"), measure_column("b_"), *COEFFICIENT_SOURCES),
        beside={"models", "a_metric", "b_metric", "n_measured", "n_published", "n_mixed"},
    ),
    Export(
        "/agreement/sizes.csv",
        sources=(measure_column(""), *COEFFICIENT_SOURCES),
        beside={"models", "family", "metric", "property"},
    ),
    Export(
        f"/agreement/models.csv?c={ONE_COLUMN}",
        beside={"model", "slug", "family", "kind", *PROPERTIES, ONE_COLUMN, f"{ONE_COLUMN} from"},
    ),
    Export(
        "/agreement/scorers.csv",
        sources=(Source(JudgedEntry, {"name": "model"}, {"run": "the database's own number"}),),
        beside={"rank:careful", "value:careful", "rank:blunt", "value:blunt", "lowest", "highest", "median"},
    ),
    Export(
        "/agreement/scorers.json",
        "boards",
        (
            Source(JudgedBoard, {"versions": "scorers", "slices": "scorers", "values": "entries"}),
            Source(RankSensitivity, {"robust": "robust_pairs", "concordance": "kendall_w", "ranks": "entries"}),
        ),
    ),
    Export(
        "/agreement/scorers.json",
        "boards.entries",
        (Source(JudgedEntry, {"name": "model"}, {"run": "the database's own number"}),),
        {"ranks", "values", "lowest", "highest", "median"},
    ),
)

COMPARED, ENDS = "/compare-scorers.json?a=careful&b=blunt", {"first": "a", "second": "b"}
SCORERS = (
    Export(
        "/compare-scorers.csv?a=careful&b=blunt",
        sources=(
            Source(
                AttributeAgreement,
                {
                    **{"attribute": "a", "counterpart": "b", "n": "texts", "labels": "label_agreement"},
                    "pearson": ("pearson", "pearson_low", "pearson_high"),
                },
            ),
            Source(
                LabelAgreement,
                {
                    **{"only_first": "only_a", "only_second": "only_b", "share": "label_agreement"},
                    "share_interval": ("label_agreement_low", "label_agreement_high"),
                    "kappa_interval": ("kappa_low", "kappa_high"),
                },
            ),
        ),
    ),
    Export(
        COMPARED, "", (Source(Comparison, ENDS | {"namesakes": "same_attribute_names", "ranks": "rank_agreement"}),)
    ),
    Export(COMPARED, "attributes", (Source(AttributeAgreement, {"pearson": ("pearson", "pearson_interval")}),)),
    Export(COMPARED, "attributes.labels", (Source(LabelAgreement),)),
    Export(
        COMPARED,
        "figures",
        (Source(AttributeFigures, {"farthest": "differ_most"}, {"points": "a sample for the chart"}),),
    ),
    Export(COMPARED, "figures.differ_most", (Source(TextScores, ENDS | {"prompt": "prompt_id"}),), {"difference"}),
    Export(
        COMPARED,
        "figures.models",
        (Source(ModelFigures, {"results": tuple(measure.key for measure in MEASURES)}),),
    ),
    Export(COMPARED, "rank_agreement", (Source(RankAgreement, ENDS | {"changes": "models"}), CHANGES), OF_CHANGES),
)

SCENARIOS = (
    Export(
        "/metrics/careful/scenarios.csv",
        sources=(
            Source(
                ScenarioModel,
                {
                    "name": "model",
                    "ranks": ("rank_1", "rank_2", "rank_3"),
                    "values": ("value_1", "value_2", "value_3"),
                },
            ),
        ),
    ),
    Export(
        "/metrics/careful/scenarios.json",
        "",
        (Source(ScenarioComparison, {"methods": "detoxification_methods", "absent": "models_without_all_scenarios"}),),
        {"metric", "measure", "slice"},
    ),
    Export("/metrics/careful/scenarios.json", "models", (Source(ScenarioModel),)),
    Export("/metrics/careful/scenarios.json", "prompts", (Source(PromptLabels),)),
    Export(
        "/metrics/careful/scenarios.json",
        "scenarios",
        (
            Source(ScenarioView, left_out={"suffix": "`slice` ends in it"}),
            Source(Side, {"entries": "population_size"}, {"population": "all models, as on the page"}),
            VERSION,
        ),
        {"note"},
    ),
    Export(
        "/metrics/careful/scenarios.json",
        "changes",
        (Source(ScenarioChange, {"before": "from", "after": "to", "changes": "models"}), CHANGES),
        OF_CHANGES,
    ),
)

SUCCESSION = "/metrics/careful/succession.json"
SUCCESSIONS = (
    Export("/metrics/careful/succession.csv", sources=(Source(ReversedPair),)),
    Export(
        SUCCESSION,
        "",
        (
            Source(SuccessionReport, {"succession": "metric", "orders": "ranks"}),
            Source(
                Succession,
                {"scorer": "from", "successor": "to", "finished_at": "compared_at", "result": "sources"},
                {**KEYS, **HANDLED, "rescoring": "`after` says what it changed"},
            ),
        ),
        {"old_version", "new_version", "verdict"},
    ),
    Export(
        SUCCESSION,
        "ranks",
        (Source(EntryReport, left_out={"names": "`entries` are by slug, as everywhere"}),),
        {"comparison", "pairs"},
    ),
    Export(SUCCESSION, "ranks.entries", (Source(EntryValues, {"name": "model"}),)),
    Export(SUCCESSION, "ranks.comparison", (Source(OrderComparison),)),
    Export(SUCCESSION, "ranks.pairs", (Source(ReversedPair),)),
)

CORRECTED = (
    Export(
        "/metrics/careful/corrected.csv",
        sources=(Source(CorrectedShare, {"value": "corrected", "low": "corrected_low", "high": "corrected_high"}),),
        beside={"model", "slug", "version", "raw", "raw_low", "raw_high", "corrected_by", "reason"},
    ),
)

RANKING = "/rankings.json?metric=careful"
RANKINGS = (
    Export(
        RANKING,
        "",
        (VERSION,),
        {"evaluation_set", "as_of", "url", "measure", "direction", "neutral", "slice", "entries", "not_ranked"},
    ),
    Export(
        RANKING,
        "entries",
        (
            Source(
                Row,
                {"result": "value", "cells": "slices"},
                {
                    "tied": "`rank` is the same",
                    "leads": "`rank_low` is 1",
                    "gained": "the files of rank changes",
                },
            ),
        ),
        {*RankedEntry.model_fields},
    ),
)

MANIFEST = "/metrics/careful/versions/2/manifest.json"
OTHER_PART, PAGE = "another part of the manifest", "the page of the model: no number is made of it"
MANIFESTS = (
    Export(
        MANIFEST,
        "version",
        (
            Source(
                MetricVersion,
                left_out={
                    **KEYS,
                    **STEERING,
                    **dict.fromkeys(
                        ("metric", "protocol", "chat_protocol", "scorer", "scorer_fingerprint", "attributes"),
                        OTHER_PART,
                    ),
                    **dict.fromkeys(("undeclared", "formula_version", "prompt_scores"), OTHER_PART),
                    "fallback_measure": "`metric` has the measure that is shown",
                    "opened_because": "the public change log and the page of drift",
                },
            ),
        ),
    ),
    Export(
        MANIFEST,
        "evaluation_set",
        (
            Source(
                EvaluationSet,
                left_out={
                    **KEYS,
                    "created_at": "when this board imported it",
                    **dict.fromkeys(("kind", "counts", "languages", "irregularities"), "the texts themselves show it"),
                    **dict.fromkeys(("continuations", "continuation_scores"), "no number of an entry is made of them"),
                },
            ),
        ),
    ),
    Export(
        MANIFEST,
        "entries.model",
        (
            Source(
                LanguageModel,
                {"location": "hub_id"},
                {
                    **KEYS,
                    **dict.fromkeys(("access", "hidden_note"), "who is withdrawn or hidden is not in it"),
                    **dict.fromkeys(
                        ("context", "layers", "heads", "hidden_size", "parameters"), "the model's files, by `revision`"
                    ),
                    **dict.fromkeys(("identity", "notes", "release_date", "created_at", "service_changed_at"), PAGE),
                    "source_name": PAGE,
                },
            ),
        ),
    ),
    Export(
        MANIFEST,
        "entries.run",
        (
            Source(
                Run,
                left_out={
                    **KEYS,
                    **HANDLED,
                    "finished_at": HANDLING,
                    "model": OTHER_PART,
                    "tokenizer_report": "the page of the model shows it",
                    "requester": "a person of this board",
                    **dict.fromkeys(("requests_made", "tokens_used"), "what the run cost this board's operator"),
                },
            ),
        ),
    ),
    Export(
        MANIFEST,
        "entries",
        (
            Source(
                Scoring,
                {"artefact": "scores"},
                {
                    **KEYS,
                    **HANDLED,
                    "finished_at": "`scored_at`",
                    "metric_version": OTHER_PART,
                    "lost_files": "whether a file is whole, its reader finds out by its hash",
                },
            ),
        ),
        {"not_ranked", "results"},
    ),
    Export(MANIFEST, "entries.results", (Source(Result, left_out=KEYS | {"scoring": "the entry"}),)),
    Export(
        MANIFEST,
        "standings",
        (
            Source(
                Standing,
                left_out=KEYS | {"metric_version": OTHER_PART, **dict.fromkeys(("result", "value"), "results")},
            ),
        ),
    ),
)
