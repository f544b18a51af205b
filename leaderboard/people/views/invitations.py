"""Operators invite people."""

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from leaderboard.models import Invitation
from leaderboard.people.forms import InvitationForm
from leaderboard.people.permissions import operators_only, require_user
from leaderboard.people.services import invitations as service
from leaderboard.views.confirmation import Question, action, ask

SHOWN = 200


@require_http_methods(["GET", "HEAD", "POST"])
@operators_only
@never_cache
def invitations(request: HttpRequest) -> HttpResponse:
    """List the invitations; on POST, make one and show its link this once."""
    form = InvitationForm(request.POST if request.method == "POST" else None)
    invitation, link, was_mailed = None, "", False
    if request.method == "POST" and form.is_valid():
        site = request.build_absolute_uri("/")
        invitation, link = service.invite(
            site, form.cleaned_data["email"], form.cleaned_data["days"], inviter=require_user(request)
        )
        was_mailed = bool(invitation.email)
        if was_mailed:
            service.send_invitation(invitation, link)
        form = InvitationForm()
    context = {
        "access": settings.BOARD_ACCESS,
        "form": form,
        "made": invitation,
        "link": link,
        "mailed": was_mailed,
        "invitations": Invitation.objects.select_related("invited_by", "used_by")[:SHOWN],
    }
    return render(request, "invitations.html", context, status=400 if form.is_bound else 200)


@action
def revoke_invitation(request: HttpRequest, pk: int) -> HttpResponse:
    """Revoke an invitation, after confirmation."""
    invitation = get_object_or_404(Invitation, pk=pk)
    if request.method != "POST":
        receiver = invitation.email or "anyone"
        origin = f"It was made on {invitation.created_at:%-d %B %Y} for {receiver}."
        says = [origin, "Its link will no longer work. You can make a new one."]
        return ask(request, Question(f"Withdraw invitation {pk}", says, "Withdraw", reverse("invitations")))
    if service.revoke_invitation(pk, operator=require_user(request)):
        messages.info(request, "The invitation is withdrawn.")
    else:
        messages.error(request, "This invitation is no longer open: there is nothing to withdraw.")
    return redirect("invitations")
