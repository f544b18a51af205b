"""The files that submitters of outputs fill in."""

from collections.abc import Iterator

from leaderboard.models import Protocol
from leaderboard.services import artefacts
from scoring.contributed import generations_template, likelihoods_template
from scoring.contributed.templates import TemplateFormat
from scoring.evaluation_sets import from_table, prompts_from_table


def template_of(protocol: Protocol, kind: TemplateFormat) -> Iterator[str]:
    """The lines of a template, with a row for each output that the protocol asks for."""
    texts = artefacts.load(protocol.evaluation_set.artefact)
    if protocol.method == Protocol.LIKELIHOOD:
        return likelihoods_template(from_table(texts), kind)
    return generations_template(prompts_from_table(texts), protocol.k or 1, kind)
