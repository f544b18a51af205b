"""Published figures: from the CSV files of `leaderboard/published/` to entries with a provenance of their own."""

from collections.abc import Iterable, Mapping
from functools import partial

from django.db import transaction
from django.utils import timezone

from leaderboard.models import AuditVerb, Metric, MetricVersion, Provenance, Result, Scoring, Work
from leaderboard.services import hosseini_figures, pozzobon_figures, snoswell_figures, stereotype_figures
from leaderboard.services.audit import record
from leaderboard.services.figures import FOLDER, Figure, SourceFigures, rows
from leaderboard.services.hosseini_figures import HOSSEINI
from leaderboard.services.publish import publish_standings
from leaderboard.services.versions import next_number
from scoring.fingerprints import fingerprint

__all__ = ["FOLDER", "PUBLICATIONS", "Figure", "SourceFigures", "publish", "rows", "seed_published"]


def seed_published() -> list[MetricVersion]:
    """Enter all published figures, once; boards get what their versions lack. Returns the versions."""
    return [publish(publication) for publication in PUBLICATIONS]


@transaction.atomic
def publish(publication: SourceFigures) -> MetricVersion:
    """The published version with the figures of `publication`, made and ranked; with what it lacks, if there is one.

    What is printed never changes once entered.
    """
    metric, source = Metric.objects.get(slug=publication.metric), publication.source
    existing_version = MetricVersion.objects.filter(
        metric=metric, provenance=Provenance.PUBLISHED, source=source
    ).first()
    if existing_version:
        publication.models()  # which are joined to what became known of them
        complete(existing_version, publication)
        return existing_version
    version = MetricVersion.objects.create(
        metric=metric,
        number=next_number(metric),
        provenance=Provenance.PUBLISHED,
        protocol=metric.protocol,
        scorer=metric.scorer,
        scorer_fingerprint=fingerprint({"published": source}),
        formula_version=metric.formula.version,
        source=source,
        decimals=publication.decimals,
    )
    enter_figures(version, publication, publication.figures())
    publish_standings(version)
    record_publication(version)
    return version


def enter_figures(version: MetricVersion, publication: SourceFigures, figures: Iterable[Figure]) -> int:
    """Enter figures that the version does not have, and the models that are new to it. Returns how many models are."""
    new_figures, models = list(figures), publication.models()
    scorings = {scoring.model_id: scoring for scoring in version.scorings.all()}
    figure_models = {models[figure.model].pk: models[figure.model] for figure in new_figures}
    moment = timezone.now()
    new_scorings = Scoring.objects.bulk_create(
        Scoring(model=model, metric_version=version, state=Work.State.DONE, scored_at=moment, finished_at=moment)
        for pk, model in figure_models.items()
        if pk not in scorings
    )
    scorings |= {scoring.model_id: scoring for scoring in new_scorings}
    Result.objects.bulk_create(result_of(figure, scorings[models[figure.model].pk]) for figure in new_figures)
    return len(new_scorings)


def result_of(figure: Figure, scoring: Scoring) -> Result:
    """The figure as a result, not saved."""
    return Result(
        scoring=scoring,
        measure=figure.measure,
        slice=figure.slice,
        value=figure.value,
        ci_low=figure.ci_low,
        ci_high=figure.ci_high,
        n=figure.n,
        published_rank=figure.rank,
        derived=figure.derived,
        interval_derived=figure.interval_derived,
    )


def complete(version: MetricVersion, publication: SourceFigures) -> None:
    """Enter the figures that a version entered before lacks, and rank it with them."""
    entered_keys = set(
        Result.objects.filter(scoring__metric_version=version).values_list("scoring__model__slug", "measure", "slice")
    )
    figures = {
        (publication.slug(figure.model), figure.measure, figure.slice): figure for figure in publication.figures()
    }
    add_intervals(version, figures)
    new_figures = [figure for key, figure in figures.items() if key not in entered_keys]
    if not new_figures:
        return
    new_models = enter_figures(version, publication, new_figures)
    publish_standings(version)
    if new_models:
        record_publication(version)
    else:
        detail = {"version": version.number, "results": len(new_figures)}
        record(AuditVerb.ADD_DERIVED_FIGURES, f"metric {version.metric.slug}", detail)


def add_intervals(version: MetricVersion, figures: Mapping[tuple[str, str, str], Figure]) -> None:
    """Give the results of a version that have none the intervals that are worked out from counts of texts."""
    measures = {figure.measure for figure in figures.values() if figure.interval_derived}
    results = Result.objects.filter(scoring__metric_version=version, measure__in=measures, ci_low=None)
    changed_results = []
    for result in results.select_related("scoring__model"):
        figure = figures.get((result.scoring.model.slug, result.measure, result.slice))
        if figure and figure.interval_derived:
            result.ci_low, result.ci_high, result.interval_derived = figure.ci_low, figure.ci_high, True
            changed_results.append(result)
    Result.objects.bulk_update(changed_results, ["ci_low", "ci_high", "interval_derived"], batch_size=500)


def record_publication(version: MetricVersion) -> None:
    """Record that a version was published, with how many models and from which source."""
    detail = {"version": version.number, "entries": version.scorings.count(), "source": version.source}
    record(AuditVerb.PUBLISH_VERSION, f"metric {version.metric.slug}", detail)


# In the order of the metric versions that they become.
PUBLICATIONS = (
    SourceFigures(
        "safety-toxigen",
        HOSSEINI,
        hosseini_figures.hosseini_toxigen,
        hosseini_figures.slug_of_hosseini,
        hosseini_figures.models_with_students,
    ),
    SourceFigures(
        "safety-implicit-hate",
        HOSSEINI,
        hosseini_figures.hosseini_implicit_hate,
        hosseini_figures.slug_of_hosseini,
        hosseini_figures.models_of_hosseini,
    ),
    SourceFigures(
        "regard",
        HOSSEINI,
        hosseini_figures.hosseini_regard,
        hosseini_figures.slug_of_hosseini,
        hosseini_figures.models_of_hosseini,
    ),
    SourceFigures(
        "rtp-detoxify-multilingual",
        snoswell_figures.SNOSWELL,
        snoswell_figures.snoswell_detoxify,
        snoswell_figures.slug_of_snoswell,
        snoswell_figures.models_of_snoswell,
        snoswell_figures.DETOXIFY_DECIMALS,
    ),
    SourceFigures(
        "rtp-lexicon-farrell",
        snoswell_figures.SNOSWELL,
        snoswell_figures.snoswell_lexicon,
        snoswell_figures.slug_of_snoswell,
        snoswell_figures.models_of_snoswell,
        snoswell_figures.LEXICON_DECIMALS,
    ),
    *(
        SourceFigures(
            "rtp-perspective",
            source,
            partial(pozzobon_figures.rtp_models, is_rescored),
            pozzobon_figures.slug_of_rtp,
            pozzobon_figures.models_of_rtp,
            pozzobon_figures.RTP_DECIMALS,
        )
        for source, is_rescored in ((pozzobon_figures.RTP, False), (pozzobon_figures.RTP_RESCORED, True))
    ),
    *(
        SourceFigures(
            "rtp-detoxification",
            source,
            partial(pozzobon_figures.detoxification_methods, is_rescored),
            pozzobon_figures.slug_of_method,
            pozzobon_figures.models_of_methods,
        )
        for source, is_rescored in ((pozzobon_figures.METHODS, False), (pozzobon_figures.METHODS_RESCORED, True))
    ),
    *(
        SourceFigures(
            "rtp-helm-perspective",
            source,
            partial(pozzobon_figures.helm, source),
            pozzobon_figures.slug_of_helm,
            pozzobon_figures.models_of_helm,
            pozzobon_figures.HELM_DECIMALS,
        )
        for source in (pozzobon_figures.HELM, pozzobon_figures.HELM_RESCORED)
    ),
    SourceFigures(
        "stereoset",
        stereotype_figures.NADEEM,
        stereotype_figures.nadeem_stereoset,
        stereotype_figures.slug_of_nadeem,
        stereotype_figures.models_of_nadeem,
    ),
    *(
        SourceFigures(
            evaluation_set,
            stereotype_figures.VIG,
            partial(stereotype_figures.vig_effects, evaluation_set),
            stereotype_figures.slug_of_vig,
            stereotype_figures.models_of_vig,
        )
        for evaluation_set in ("winobias", "winogender")
    ),
)
