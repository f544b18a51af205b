"""What a person sent, and what became of it."""

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from leaderboard.models import Submission
from leaderboard.services.roles import MODERATE


@require_safe
@login_required
def submission(request: HttpRequest, pk: int) -> HttpResponse:
    """How far one's submission is. Moderators see everybody's; to all others there is no such page."""
    seen = Submission.objects.select_related("model", "submitter")
    if not request.user.has_perm(MODERATE):
        seen = seen.filter(submitter=request.user)
    return render(request, "submission.html", {"submission": get_object_or_404(seen, pk=pk)})
