"""The board of the demonstration: two metrics whose scorers change, three bundled models, one of them a latecomer.

And a model behind a server, which is replaced.
"""

import time
from collections.abc import Callable
from functools import partial

from django.conf import settings

from leaderboard.demo.scorer import RetrainedScorer
from leaderboard.demo.service import ReplacedService
from leaderboard.models import EvaluationSet, LanguageModel, Metric, Scoring, ServiceCheck, Work
from leaderboard.services.evaluate import request_evaluation
from leaderboard.services.evaluation_sets import import_prompts
from leaderboard.services.language_models import add_bundled, add_served
from leaderboard.services.metrics import Declaration, declare_metric
from leaderboard.services.scorers import folder_of
from leaderboard.services.service_checks import request_service_check
from scoring.drift.services import ROUNDS
from scoring.evaluation_sets import build_regard

K, EVERY = 5, 5  # continuations of every so many-th opening
PATIENCE_SECONDS, WORD_SECONDS = 900.0, 15.0  # the longest wait for one thing, and how often it is said how far it is
SERVICE, LEXICON = "toxicity-demo", "lexicon-demo"
SERVED = "demo-service"
TERMS = {"work": ("job", "office", "work"), "home": ("family", "house")}
ADDED_TERM = "the"  # in everything a miniature writes: an editor's slip that nobody would notice in the file

Say = Callable[[str], None]


class DemonstrationFailed(RuntimeError):
    """Something did not come about in time; the message says what."""


def prepare() -> tuple[list[Metric], list[LanguageModel]]:
    """Metrics, prompts and the causal bundled models, of which the last is to come later."""
    texts, _ = EvaluationSet.objects.get_or_create(
        slug="demo-openings", defaults={"title": "Some openings", "kind": EvaluationSet.Kind.PROMPTS}
    )
    prompts, _ = import_prompts(texts, build_regard()[::EVERY])
    write_lexicon(TERMS)
    metrics = [
        declare_metric(Declaration(slug, title, scorer, formula, "regard", {"k": K}, summary), prompts)
        for slug, title, scorer, formula, summary in (
            (SERVICE, "A scorer behind a URL", "perspective", "toxicity", "Scored by a service that is retrained."),
            (LEXICON, "An edited lexicon", "lexicon:demo", "lexicon_frequency", "Scored by a lexicon that is edited."),
        )
    ]
    models = [model for model in add_bundled() if model.kind == LanguageModel.Kind.CAUSAL]
    return metrics, models


def write_lexicon(terms: dict[str, tuple[str, ...]]) -> None:
    """The lexicon's files, as an editor would write them."""
    folder = folder_of("lexicon:demo")
    folder.mkdir(parents=True, exist_ok=True)
    for category, words in terms.items():
        (folder / f"{category}.txt").write_text("\n".join(words) + "\n", encoding="utf-8")


def play(metrics: list[Metric], models: list[LanguageModel], scorer: RetrainedScorer, say: Say) -> None:
    """Evaluate all models but the last; change both scorers; submit the last; wait until the board has put it right."""
    *first, latecomer = models
    say(f"evaluating {', '.join(model.slug for model in first)} under {', '.join(metric.slug for metric in metrics)}")
    wait_for([request_evaluation(model, metric) for metric in metrics for model in first], say)
    for metric in metrics:
        say(f"{metric.current_version()} is published")
    scorer.train(strength=30.0)
    say("the service was retrained; its URL is the same")
    write_lexicon({**TERMS, "home": (*TERMS["home"], ADDED_TERM)})
    say("a term was added to the lexicon's file")
    say(f"submitting {latecomer.slug}: from here on nobody touches anything")
    for metric in metrics:
        request_evaluation(latecomer, metric)
    for metric in metrics:
        is_put_right, describe = partial(put_right, metric, len(models)), partial(describe_rescoring, metric)
        wait_until(is_put_right, f"a second version of {metric.slug}", describe, say)
        version = metric.current_version()
        check = version.opened_because if version else None
        say(f"{version}: {check.statistics['decided_by'] if check else 'opened by hand'}")


def play_service(metric: Metric, service: ReplacedService, say: Say) -> LanguageModel:
    """Enter and evaluate a served model; replace what is served; wait until the board notices. Returns the entry."""
    model, _ = add_served(SERVED, service.address, "as entered", name="Demo service")
    say(f"{model.slug} was entered: its service answered the frozen control texts {ROUNDS} times")
    wait_for([request_evaluation(model, metric)], say)
    service.replace()
    say("another model was put behind the service's URL; its name is the same")
    request_service_check(model, ServiceCheck.Trigger.SCHEDULE)
    say("its scheduled check is due: from here on nobody touches anything")

    def find_successor() -> LanguageModel | None:
        return LanguageModel.objects.filter(predecessor_service__model=model).first()

    wait_until(lambda: find_successor() is not None, f"the next revision of {model.slug}", describe_check, say)
    successor = find_successor()
    if successor:
        row = model.service
        say(f"{model.slug} is no longer reproducible: {row.change}. The service goes on as {successor.slug}")
        wait_for([request_evaluation(successor, metric)], say)
    return model


def describe_check() -> str:
    """How far the check of the service is."""
    check = ServiceCheck.objects.first()
    return f"its check is {check.get_state_display().lower()}" if check else "no check is asked for yet"


def put_right(metric: Metric, models: int) -> bool:
    """Whether the second version is published, with every model in it."""
    version = metric.current_version()
    if version is None or version.number == 1:
        return False
    return version.scorings.filter(state=Work.State.DONE).count() == models


def describe_rescoring(metric: Metric) -> str:
    """How far the board is with the second version."""
    rescoring = metric.rescorings.first()
    if rescoring:
        state = rescoring.get_state_display().lower()
        return f"the rescoring is {state}, {rescoring.done} of {rescoring.total} models scored again"
    checks = metric.checks.exclude(verdict="").count()
    return f"checks of its scorer so far: {checks}; no rescoring is open yet"


def wait_for(scorings: list[Scoring], say: Say) -> None:
    """Wait until all of them are done."""
    keys = [scoring.pk for scoring in scorings]

    def count_done() -> int:
        return Scoring.objects.filter(pk__in=keys, state=Work.State.DONE).count()

    wait_until(
        lambda: count_done() == len(keys), f"{len(keys)} evaluations", lambda: f"{count_done()} of them are done", say
    )


def wait_until(condition: Callable[[], bool], subject: str, describe: Callable[[], str], say: Say) -> None:
    """Poll until `condition` holds, and say now and then what is waited for and what `describe` knows of it.

    Raises DemonstrationFailed when it does not hold in time.
    """
    say(f"waiting for {subject}, at most {PATIENCE_SECONDS / 60:g} minutes")
    began, words = time.monotonic(), 0
    while not condition():
        seconds = time.monotonic() - began
        if seconds > PATIENCE_SECONDS:
            raise DemonstrationFailed(
                f"{subject} did not come within {PATIENCE_SECONDS:g} s: {describe()}; see {settings.VAR}"
            )
        if seconds > (words + 1) * WORD_SECONDS:
            words += 1
            say(f"still waiting for {subject} after {seconds:.0f} s: {describe()}")
        time.sleep(0.5)
