"""Damaged or missing files, for operators: check them again, or make them again."""

from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse

from leaderboard.models import Artefact
from leaderboard.operations.services import restore
from leaderboard.operations.services.scrub import look_at, lost_files
from leaderboard.people.permissions import require_user
from leaderboard.services.file_marks import entries_of
from leaderboard.storage import StorageAway
from leaderboard.views.confirmation import Question, action, ask_and_do, page
from leaderboard.views.parameters import page_number
from scoring.refusals import Refused

FILES_A_PAGE = 25


@page
def operate_files(request: HttpRequest) -> HttpResponse:
    """List the lost files and the entries whose numbers rest on them, `page` by page."""
    file_page = Paginator(lost_files(), FILES_A_PAGE).get_page(page_number(request))
    rows = [
        {
            "file": file,
            "entries": list(entries_of(file)),
            "restorable": restore.can_restore(file),
            "differs": restore.differs(file),
        }
        for file in file_page
    ]
    absent = Artefact.objects.filter(state=Artefact.State.ABSENT).count()
    return render(request, "operate/files.html", {"rows": rows, "page": file_page, "absent": absent})


@action
def steer_file(request: HttpRequest, sha256: str, step: str) -> HttpResponse:
    """Check a lost file again, or make it again."""
    artefact = get_object_or_404(Artefact, sha256=sha256)
    back = reverse("operate_files")
    if step == "collect":
        says = [
            "It is made again from what made it, the model or its outputs. Only the same bytes take its place: where "
            "others come out, the file stays lost and the metric has to be rescored.",
        ]
        question = Question(f"Collect file {sha256[:12]} again", says, "Collect again", back)
        return ask_and_do(
            request, question, None, lambda _: restore.request_restoration(artefact, require_user(request))
        )
    if step != "look":
        raise Http404(f"step = {step!r}: use look or collect")

    def look(_: dict[str, str]) -> str:
        try:
            whole = look_at(artefact)
        except StorageAway as error:
            raise Refused(str(error)) from error
        return f"The file {sha256[:12]} is {'whole' if whole else 'still ' + artefact.state}."

    says = [f"It is read and its bytes are compared with its hash; it lies at {artefact.storage_name} on the storage."]
    return ask_and_do(request, Question(f"Look at file {sha256[:12]} again", says, "Look again", back), None, look)
