"""Addresses of sending models, and of what became of them."""

from django.urls import path, re_path

from leaderboard.submissions.views import hub, outputs, submissions

urlpatterns = [
    path("submissions/", submissions.submissions, name="submissions"),
    path("submissions/letters/", submissions.submission_letters, name="submission_letters"),
    path("submit/outputs/", outputs.submit_outputs, name="submit_outputs"),
    re_path(
        r"^submit/outputs/template/(?P<slug>[-a-z0-9]+)\.(?P<kind>jsonl|csv)$",
        outputs.outputs_template,
        name="outputs_template",
    ),
    path("submit/tool/", outputs.submit_tool, name="submit_tool"),
    path("submit/", hub.submit, name="submit"),
    path("submit/hub/", hub.submit_hub, name="submit_hub"),
    path("submissions/<int:pk>/", submissions.submission, name="submission"),
    path("submissions/<int:pk>/cancel/", submissions.cancel_submission, name="cancel_submission"),
    path("submissions/<int:pk>/retry/", submissions.retry_submission, name="retry_submission"),
    path("submissions/<int:pk>/withdraw/", submissions.withdraw_submission, name="withdraw_submission"),
    path("submissions/<int:pk>/correct/", submissions.correct_submission, name="correct_submission"),
    path("submissions/<int:pk>/change/", submissions.change_submission, name="change_submission"),
]
