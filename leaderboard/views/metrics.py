"""What a metric is."""

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from leaderboard.queries.metric_page import find_metric, policy_rows, story
from leaderboard.queries.scenarios import has_scenarios
from leaderboard.queries.scorer_ranks import describe_sensitivity, list_groups, usual_board
from leaderboard.queries.scorer_state import scorer_state
from leaderboard.rankings.versions import metrics_with_versions
from leaderboard.views.keeping import keep_page


@require_safe
@keep_page()
def metric(request: HttpRequest, slug: str) -> HttpResponse:
    """What is measured and how, by which scorer, under which versions, and what the number does not tell."""
    metric_row = find_metric(slug)
    if metric_row is None:
        raise Http404(f"There is no metric {slug!r} on this board")
    metric_story = story(metric_row)
    metrics = metrics_with_versions()
    scorer_board = usual_board(list_groups(metrics), metric_row) if metric_row.asked_scorer else None
    is_measured = bool(metric_story.version and metric_story.version.measured)
    context = {
        "metric": metric_row,
        "story": metric_story,
        "protocol": metric_story.version.protocol if metric_story.version else metric_row.protocol,
        "policy": policy_rows(metric_story.policy, metric_row.formula.mean_shift_note),
        "scorer": scorer_state(metric_row),
        "has_corrected": is_measured and any(measure.correctable for measure in metric_row.formula.ranked),
        "other_scorers": describe_sensitivity(*scorer_board) if scorer_board else [],
        "has_scenarios": has_scenarios(next(one for one in metrics if one == metric_row)),
    }
    return render(request, "metric.html", context)
