"""Asking people in, for operators."""

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from leaderboard.forms import InvitationForm
from leaderboard.models import Invitation
from leaderboard.services import invitations as service
from leaderboard.views.asking import Question, action, ask
from leaderboard.views.permissions import operators_only

SHOWN = 200


@require_http_methods(["GET", "HEAD", "POST"])
@operators_only
@never_cache
def invitations(request: HttpRequest) -> HttpResponse:
    """Those there are; and a new one, whose link is in this one answer and nowhere else."""
    form = InvitationForm(request.POST if request.method == "POST" else None)
    made, link, mailed = None, "", False
    if request.method == "POST" and form.is_valid():
        site = request.build_absolute_uri("/")
        made, link = service.invite(site, form.cleaned_data["email"], form.cleaned_data["days"], by=request.user)
        mailed = bool(made.email)
        if mailed:
            service.send_invitation(made, link)
        form = InvitationForm()
    context = {
        "access": settings.BOARD_ACCESS,
        "form": form,
        "made": made,
        "link": link,
        "mailed": mailed,
        "invitations": Invitation.objects.select_related("invited_by", "used_by")[:SHOWN],
    }
    return render(request, "invitations.html", context, status=400 if form.is_bound else 200)


@action
def revoke_invitation(request: HttpRequest, pk: int) -> HttpResponse:
    """Nobody signs up with it any more."""
    invitation = get_object_or_404(Invitation, pk=pk)
    if request.method != "POST":
        whom = invitation.email or "anyone"
        made = f"It was made on {invitation.created_at:%-d %B %Y} for {whom}."
        says = [made, "Nobody signs up with its link any more. A new one can be made."]
        return ask(request, Question(f"Withdraw invitation {pk}", says, "Withdraw", reverse("invitations")))
    if service.revoke_invitation(pk, by=request.user):
        messages.info(request, "The invitation is withdrawn.")
    else:
        messages.error(request, "This invitation is not open any more: there is nothing to withdraw.")
    return redirect("invitations")
