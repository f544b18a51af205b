"""Form A: a model of the hub, its revision pinned."""

from dataclasses import asdict
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.files import File

from leaderboard.models import LanguageModel, Metric, Submission
from leaderboard.services import language_models
from leaderboard.services.submissions.refusals import SubmissionRefused
from scoring.language_models import Architecture, HubUnavailable, ModelRefused, ResolvedModel, resolve


def check(_user: User, values: dict[str, Any], upload: "File[bytes] | None") -> dict[str, Any]:
    """The payload of a hub model: `hub_id`, `revision`, `name`, `metrics`, `licence`, `family`, `notes`, `resolved`.

    Raises SubmissionRefused.
    """
    try:
        found = resolve(
            values["hub_id"],
            revision=values["revision"] or None,
            endpoint=settings.HUB_ENDPOINT,
            token=settings.HUB_TOKEN,
        )
    except (ModelRefused, HubUnavailable) as error:
        raise SubmissionRefused({"hub_id": [str(error)]}) from error
    unknown = set(values["metrics"]) - set(Metric.objects.values_list("slug", flat=True))
    if unknown or not values["metrics"]:
        raise SubmissionRefused({"metrics": [f"{sorted(unknown)}: choose metrics of this board"]})
    return {**values, "name": found.location, "resolved": asdict(found)}


def enter(submission: Submission) -> LanguageModel:
    """The row of the model that the payload pinned."""
    resolved = submission.payload["resolved"]
    found = ResolvedModel(**{**resolved, "architecture": Architecture(**resolved["architecture"])})
    model, _ = language_models.enter(found, LanguageModel.Source.HUB, found.location, submission.payload["name"])
    return model
