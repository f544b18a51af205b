"""What a new board starts with. Everything here may run again at any time and changes nothing that is there."""

import tomllib
from collections.abc import Callable
from pathlib import Path

from django.conf import settings

from leaderboard.models import EvaluationSet, LanguageModel, Metric, StoredFolder
from leaderboard.services.devices import has_engine
from leaderboard.services.evaluate import CannotEvaluate, request_evaluation
from leaderboard.services.evaluation_sets import declare, import_file, import_prompts, import_sentences, import_texts
from leaderboard.services.folders import name_of_model, name_of_scorer, store_folder
from leaderboard.services.language_models import add_bundled
from leaderboard.services.metrics import Declaration, declare_metric
from leaderboard.services.published import seed_published
from leaderboard.services.scorers import folder_of, scorers_in_use
from leaderboard.services.upgrade import catch_up_all
from scoring.evaluation_sets import (
    IDENTITY_MENTIONS,
    PARAPHRASES,
    build_identity_mentions,
    build_paraphrases,
    build_regard,
    build_starter,
    get,
)

METRICS = Path(__file__).parent.parent / "metrics.toml"
STARTER, OPENINGS = "starter", "regard-openings"
TOXIGEN, PROMPTS = "toxigen-human", "real-toxicity-prompts-sample"  # imported where the data is at hand
# What the bundled models are evaluated under by themselves, by evaluation set.
FIRST = {
    TOXIGEN: ("safety-toxigen",),
    STARTER: ("safety-starter",),
    PROMPTS: ("toxicity-profanity", "lexicon-starter"),
    OPENINGS: ("toxicity-openings",),
}


def seed(say: Callable[[str], None] = lambda _line: None) -> None:
    """Metrics, published figures, evaluation sets at hand, bundled models and their evaluations."""
    metrics = seed_metrics()
    say(f"metrics: {', '.join(metric.slug for metric in metrics)}")
    for version in seed_published():
        say(f"published figures: {version.scorings.count()} models under {version} ({version.source})")
    sets = seed_evaluation_sets()
    for texts in [*sets, *seed_labelled_texts()]:
        if texts.artefact:
            say(f"evaluation set: {texts} ({texts.artefact.rows} texts)")
    models = add_bundled() if has_engine() else list(LanguageModel.objects.filter(source=LanguageModel.Source.BUNDLED))
    say(f"bundled models: {', '.join(model.slug for model in models) or 'none: this host has no engine to read them'}")
    for metric in Metric.objects.filter(slug__in=[slug for texts in sets for slug in FIRST[texts.slug]]):
        slugs = [model.slug for model in models if queue_evaluation(model, metric)]
        say(f"evaluations under {metric.slug} are queued ({len(slugs)} models): the worker starts with them")
    for folder in keep_local_folders():
        say(f"{folder}: kept for all hosts ({folder.files.count()} files)")
    for metric in catch_up_all():
        say(f"all entries of {metric.slug} are scored again: the code computes or checks differently from before")


def queue_evaluation(model: LanguageModel, metric: Metric) -> bool:
    """Queue the evaluation, if the model can have one under this metric; the sweeper tells the workers."""
    try:
        request_evaluation(model, metric, send=False)
    except CannotEvaluate:
        return False
    return True


def seed_metrics() -> list[Metric]:
    """The boards of metrics.toml, each with its protocol."""
    metrics = []
    for values in tomllib.loads(METRICS.read_text(encoding="utf-8"))["metrics"]:
        texts = declare(get(values.pop("evaluation_set")))
        metrics.append(declare_metric(Declaration(**values), texts))
    return metrics


def seed_evaluation_sets() -> list[EvaluationSet]:
    """ToxiGen and the sample of RealToxicityPrompts where `PLUMBLINE_DATA` has them, else what comes with Plumbline."""
    openings = import_prompts(declare(get(OPENINGS)), build_regard())[0]
    return [
        flagship(TOXIGEN) or import_sentences(get(STARTER), build_starter())[0],
        flagship(PROMPTS) or openings,
    ]


def seed_labelled_texts() -> list[EvaluationSet]:
    """The labelled texts that come with Plumbline, for report cards of scorers."""
    return [
        import_texts(declare(get(IDENTITY_MENTIONS)), build_identity_mentions())[0],
        import_texts(declare(get(PARAPHRASES)), build_paraphrases())[0],
    ]


def flagship(slug: str) -> EvaluationSet | None:
    """The first version of a set, imported where its file is at hand; None where there is neither."""
    first_version = EvaluationSet.objects.filter(slug=slug, version=1, artefact__isnull=False).first()
    path = settings.PLUMBLINE_DATA / get(slug).files[0].path
    return first_version or (import_file(slug, path)[0] if path.exists() else None)


def keep_local_folders() -> list[StoredFolder]:
    """Store files of scorers and operators' models that lie on this host, where the board does not keep them yet."""
    stored_names = set(StoredFolder.objects.values_list("name", flat=True))
    folders = []
    for name, path in list_local_folders():
        if name not in stored_names and path.exists():
            folders.append(store_folder(name, path))
    return folders


def list_local_folders() -> list[tuple[str, Path]]:
    """Where files of scorers in use and of operators' models lie on a host, each with the name to store them under."""
    models = LanguageModel.objects.filter(source=LanguageModel.Source.LOCAL).order_by("slug")
    return [
        *((name_of_scorer(scorer), folder_of(scorer)) for scorer in scorers_in_use()),
        *((name_of_model(model), Path(model.location)) for model in models),
    ]
