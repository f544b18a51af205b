"""The service behind an entry, as its page shows it."""

from pathlib import PurePath
from typing import Any

from leaderboard.models import LanguageModel, Service, ServiceCheck, Work
from leaderboard.services.failures import redact

MOST_CHECKS = 10


def describe_service(model: LanguageModel) -> dict[str, Any]:
    """The service and its latest checks, in two queries; empty for models that are not served.

    Addresses and files of the operator's own are left out of what is shown.
    """
    if model.source != LanguageModel.Source.SERVER:
        return {}
    service = Service.objects.select_related("successor").filter(model=model).first()
    if service is None:
        return {}
    service.identity = {name: redact(value) for name, value in service.identity.items()}
    service.change = redact(service.change)
    if weights := service.verification.get("weights"):
        service.verification["weights_name"] = PurePath(weights).name if weights.startswith(("/", ".")) else weights
    checks = list(ServiceCheck.objects.filter(model=model, state=Work.State.DONE)[:MOST_CHECKS])
    for check in checks:
        check.statistics["decided_by"] = redact(check.statistics["decided_by"])
    return {"service": service, "service_checks": checks}
