"""Everything about one model."""

from dataclasses import dataclass
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils.html import format_html
from django.views.decorators.http import require_safe

from leaderboard.charts import Chart, RankPoint, distributions, rank_history_chart
from leaderboard.citations import Citation, cite_result
from leaderboard.formats import markdown
from leaderboard.models import LanguageModel, MetricVersion
from leaderboard.queries.entry_checks import checks_of, readings
from leaderboard.queries.likelihoods import Likelihoods, NotAtHand, has_likelihoods, likelihoods
from leaderboard.queries.profiles import Profile, newer_and_older, other_revisions, outdated, profiles, why_not_open
from leaderboard.views.keeping import kept
from leaderboard.views.parameters import pick, read_number
from leaderboard.views.polling import polling
from scoring.statistics.distributions import QUANTILES


@dataclass(frozen=True)
class Section:
    """A profile with what is drawn and said beside it; problem: why distributions are missing that should be there."""

    profile: Profile
    citation: Citation | None
    history: Chart | None
    likelihoods: Likelihoods | None
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
@kept(watching=True, reads=("metric", "version"))
def model(request: HttpRequest, slug: str) -> HttpResponse:
    """A model's card, its numbers under the newest version of each metric, its history, its files and its runs."""
    found = get_object_or_404(LanguageModel, slug=slug)
    if found.hidden_note:
        return hidden_page(request, found)
    poll = polling(request, found.is_evaluated())
    newer, older = newer_and_older(found)
    runs = found.runs.select_related("protocol__evaluation_set", "artefact").order_by("created_at")
    context = {
        "model": found,
        "compare": f"/compare/?{urlencode({'m': found.slug})}",
        "newer": newer,
        "older": older,
        "others": other_revisions(found),
        "reason": why_not_open(found),
        "outdated": outdated(found),
        "sections": sections(request, found) if poll["fresh"] else [],
        "quantiles": [f"{100 * of:.0f}%" for of in QUANTILES],
        "runs": runs,
        "readings": readings(runs),
        "checks": checks_of(found),
        **poll,
    }
    return render(request, "model.html", context)


def hidden_page(request: HttpRequest, found: LanguageModel) -> HttpResponse:
    """What there is to see of a model that is hidden: that it is, and why. Never for search engines."""
    response = render(request, "model_hidden.html", {"model": found})
    response["X-Robots-Tag"] = "noindex, nofollow"
    return response


def sections(request: HttpRequest, found: LanguageModel) -> list[Section]:
    """A section a metric; of the one that the address names, under the version that it names. Raises Http404."""
    slug, number = request.GET.get("metric", ""), read_number(request, "version")
    known = profiles(found, slug, number)
    named = [of for of in known if of.version.metric.slug == pick(request, "metric", "", ["", *slugs(known)])]
    if number:
        pick(request, "version", "", [str(step.version.number) for of in named for step in of.steps])
    return [section(request, found, profile) for profile in known]


def slugs(known: list[Profile]) -> list[str]:
    """The metrics that a model has numbers of."""
    return [profile.version.metric.slug for profile in known]


def section(request: HttpRequest, found: LanguageModel, profile: Profile) -> Section:
    """What belongs to one profile."""
    likely, problem = None, ""
    if has_likelihoods(profile.scoring):
        try:
            likely = likelihoods(profile.scoring)
        except NotAtHand as error:
            problem = str(error)
    return Section(
        profile,
        cite_result(found, profile, request.build_absolute_uri(address_of(found, profile))),
        history_chart(found, profile) if len(profile.steps) > 1 else None,
        likely,
        likelihood_chart(profile, likely) if likely else None,
        problem,
        snippets(request, found, profile) if badged(profile) else None,
    )


def badged(profile: Profile) -> bool:
    """Whether it is this profile that the badge of the model and the metric tells of: badges tell what stands now."""
    return profile.place is not None and profile.version.status == MetricVersion.Status.CURRENT


def snippets(request: HttpRequest, found: LanguageModel, profile: Profile) -> Snippets:
    """The badge of the model and the metric, as Markdown and as HTML."""
    path = reverse("badge", args=[found.slug, profile.version.metric.slug])
    picture, page = (request.build_absolute_uri(of) for of in (path, found.get_absolute_url()))
    alt = f"{profile.version.metric.title}: where {found.name} stands on Plumbline"
    html = format_html('<a href="{}"><img src="{}" alt="{}" height="22"></a>', page, picture, alt)
    return Snippets(path, alt, f"[![{markdown(alt)}]({picture})]({page})", str.__str__(html))


def address_of(found: LanguageModel, profile: Profile) -> str:
    """Where the profile stands for ever."""
    version = profile.version
    query = urlencode({"metric": version.metric.slug, "version": version.number})
    return f"{reverse('model', args=[found.slug])}?{query}"


def history_chart(found: LanguageModel, profile: Profile) -> Chart:
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
        f"{found.slug}-{profile.key}-ranks",
        points,
        f"Rank of {found.name} in {profile.version.metric.title}: {ranks}. The table under it has the same numbers.",
    )


def likelihood_chart(profile: Profile, likely: Likelihoods) -> Chart:
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
