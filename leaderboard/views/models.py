"""Everything about one model."""

from dataclasses import dataclass
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils.html import format_html
from django.views.decorators.http import require_safe

from leaderboard.card.form import describe_facts
from leaderboard.charts import Chart, RankPoint, distributions, rank_history_chart
from leaderboard.citations import Citation, cite_result
from leaderboard.formats import markdown
from leaderboard.models import LanguageModel, MetricVersion, ModelIdentity
from leaderboard.queries.entry_checks import checks_of, readings
from leaderboard.queries.likelihoods import LabelLikelihoods, has_likelihoods, likelihoods
from leaderboard.queries.profiles import (
    Profile,
    list_outdated,
    newer_and_older,
    other_revisions,
    profiles,
    why_not_open,
)
from leaderboard.queries.services import describe_service
from leaderboard.views.chart_files import CHART_FILE, chart_file
from leaderboard.views.identities import identity_page
from leaderboard.views.keeping import keep_page
from leaderboard.views.parameters import pick, read_number
from leaderboard.views.polling import describe_polling, render_polled
from scoring.refusals import Refused
from scoring.statistics.distributions import QUANTILES


@dataclass(frozen=True)
class Section:
    """A profile with what is drawn and said beside it; problem: why distributions are missing that should be there."""

    profile: Profile
    citation: Citation | None
    history: Chart | None
    likelihoods: LabelLikelihoods | None
    distributions: Chart | None
    problem: str
    badge: "Snippets | None"


@dataclass(frozen=True)
class Snippets:
    """A badge, and what to copy to show it elsewhere."""

    path: str
    alt: str
    markdown: str
    html: str


@require_safe
@keep_page(shows_progress=True, reads=("metric", "version", *CHART_FILE))
def model(request: HttpRequest, slug: str) -> HttpResponse:
    """An entry's card, its numbers under the newest version of each metric, its history, its files and its runs.

    Or the page of the model that entries are evidence about, where the address is that one's.
    """
    language_model = LanguageModel.objects.select_related("identity").filter(slug=slug).first()
    if language_model is None:
        return identity_page(request, get_object_or_404(ModelIdentity, slug=slug))
    if language_model.hidden_note:
        return hidden_page(request, language_model)
    poll = describe_polling(request, language_model.is_evaluated())
    newer, older = newer_and_older(language_model)
    runs = language_model.runs.select_related("protocol__evaluation_set", "artefact").order_by("created_at")
    model_sections = sections(request, language_model) if poll["fresh"] else []
    context = {
        "model": language_model,
        "facts": describe_facts(language_model),
        "compare": f"/compare/?{urlencode({'m': language_model.slug})}",
        "newer": newer,
        "older": older,
        "others": other_revisions(language_model),
        "reason": why_not_open(language_model),
        "outdated": list_outdated(language_model),
        "sections": model_sections,
        "quantiles": [f"{100 * quantile:.0f}%" for quantile in QUANTILES],
        "runs": runs,
        "readings": readings(runs),
        "checks": checks_of(language_model),
        **describe_service(language_model),
        **poll,
    }
    charts = [chart for section in model_sections for chart in (section.history, section.distributions)]
    return chart_file(request, charts) or render_polled(request, "model.html", context)


def hidden_page(request: HttpRequest, language_model: LanguageModel) -> HttpResponse:
    """What there is to see of a model that is hidden: that it is, and why. Never for search engines."""
    response = render(request, "model_hidden.html", {"model": language_model})
    response["X-Robots-Tag"] = "noindex, nofollow"
    return response


def sections(request: HttpRequest, language_model: LanguageModel) -> list[Section]:
    """A section a metric; of the one that the address names, under the version that it names. Raises Http404."""
    slug, number = request.GET.get("metric", ""), read_number(request, "version")
    all_profiles = profiles(language_model, slug, number)
    metric_profiles = [
        entry
        for entry in all_profiles
        if entry.version.metric.slug == pick(request, "metric", "", ["", *slugs(all_profiles)])
    ]
    if number:
        pick(request, "version", "", [str(step.version.number) for entry in metric_profiles for step in entry.steps])
    return [section(request, language_model, profile) for profile in all_profiles]


def slugs(all_profiles: list[Profile]) -> list[str]:
    """The metrics that a model has numbers of."""
    return [profile.version.metric.slug for profile in all_profiles]


def section(request: HttpRequest, language_model: LanguageModel, profile: Profile) -> Section:
    """What belongs to one profile."""
    likely, problem = None, ""
    if has_likelihoods(profile.scoring):
        try:
            likely = likelihoods(profile.scoring)
        except Refused as error:
            problem = str(error)
    return Section(
        profile,
        cite_result(language_model, profile, request.build_absolute_uri(address_of(language_model, profile))),
        history_chart(language_model, profile) if len(profile.steps) > 1 else None,
        likely,
        likelihood_chart(profile, likely) if likely else None,
        problem,
        snippets(request, language_model, profile) if has_badge(profile) else None,
    )


def has_badge(profile: Profile) -> bool:
    """Whether it is this profile that the badge of the model and the metric tells of: badges tell what stands now."""
    return profile.place is not None and profile.version.status == MetricVersion.Status.CURRENT


def snippets(request: HttpRequest, language_model: LanguageModel, profile: Profile) -> Snippets:
    """The badge of the model and the metric, as Markdown and as HTML."""
    path = reverse("badge", args=[language_model.slug, profile.version.metric.slug])
    picture, page = (request.build_absolute_uri(address) for address in (path, language_model.get_absolute_url()))
    alt = f"{profile.version.metric.title}: where {language_model.name} stands on Plumbline"
    html = format_html('<a href="{}"><img src="{}" alt="{}" height="22"></a>', page, picture, alt)
    return Snippets(path, alt, f"[![{markdown(alt)}]({picture})]({page})", str.__str__(html))


def address_of(language_model: LanguageModel, profile: Profile) -> str:
    """Where the profile stands for ever."""
    version = profile.version
    query = urlencode({"metric": version.metric.slug, "version": version.number})
    return f"{reverse('model', args=[language_model.slug])}?{query}"


def history_chart(language_model: LanguageModel, profile: Profile) -> Chart:
    """The model's ranks over the versions of the metric."""
    points = [
        RankPoint(step.version.number, place.rank, place.low, place.high, place.population)
        if (place := step.place)
        else RankPoint(step.version.number, None, None, None, "")
        for step in profile.steps
    ]
    ranks = ", ".join(
        f"{step.place.words if step.place else 'none'} under version {step.version.number}" for step in profile.steps
    )
    return rank_history_chart(
        f"{language_model.slug}-{profile.key}-ranks",
        points,
        f"Rank of {language_model.name} in {profile.version.metric.title}: {ranks}. The table under it has the same "
        "numbers.",
    )


def likelihood_chart(profile: Profile, likely: LabelLikelihoods) -> Chart:
    """Both distributions of log-perplexities."""
    harmful, benign = likely.sides
    return distributions(
        f"{profile.scoring.model.slug}-{profile.key}-likelihoods",
        likely.edges,
        (harmful.sample, benign.sample),
        "Log-perplexity: less likely texts to the right",
        f"Histograms of the log-perplexities of {harmful.n} harmful and {benign.n} benign texts. {likely.sentence} The "
        "table under it has the quantiles.",
    )
