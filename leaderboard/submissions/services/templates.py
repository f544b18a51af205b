"""Templates of the files that submitters of outputs fill in."""

from collections.abc import Iterator

from leaderboard.models import Protocol
from leaderboard.services import artefacts
from scoring.contributed.templates import TemplateFormat


def template_of(protocol: Protocol, kind: TemplateFormat) -> Iterator[str]:
    """Yield the lines of a template, with a row for each output that the protocol asks for."""
    texts = artefacts.load(protocol.evaluation_set.artefact)
    return protocol.outputs.template(texts, protocol.parameters, kind)
