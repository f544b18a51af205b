"""How to cite one result, so that a reader finds the very number again."""

import re
from dataclasses import dataclass

from leaderboard.formats import latex
from leaderboard.models import LanguageModel
from leaderboard.queries.profiles import Profile
from scoring.metrics.formulas import MEASURES, slice_label


@dataclass(frozen=True, slots=True)
class Citation:
    """One result, as plain text and for BibTeX."""

    text: str
    bibtex: str


def citation(model: LanguageModel, profile: Profile, address: str) -> Citation | None:
    """The metric's first measure on the overall slice; None where the profile has no such number."""
    result = profile.headline
    if result is None:
        return None
    version, measure = profile.version, MEASURES[result.measure]
    texts = version.protocol.evaluation_set
    digits = measure.digits if version.decimals is None else version.decimals
    value = f"{result.value:.{digits}f}"
    if result.ci_low is not None and result.ci_high is not None:
        value += f" (95% interval {result.ci_low:.{digits}f} to {result.ci_high:.{digits}f})"
    revision = f", revision {model.revision}" if model.revision else ""
    when = profile.scoring.scored_at
    dated = f"{when.day} {when:%B %Y}" if when else ""
    how = (
        f"metric version {version.number} (fingerprint {version.scorer_fingerprint[:12]}), scored {dated}"
        if version.measured
        else f"metric version {version.number}, published figures from {version.source.rstrip('.')}, entered {dated}"
    )
    said = (
        f"{measure.label} of {model.name}{revision}: {value}, {slice_label(profile.main).lower()}. "
        f"{version.metric.title}, {how}; evaluation set {texts.title}, version {texts.version}"
    )
    key = re.sub(r"[^a-z0-9]+", "-", f"plumbline-{model.slug}-{version.metric.slug}-v{version.number}".lower())
    fields = {
        "title": latex(f"{version.metric.title}: {model.name}"),
        "author": "{Plumbline}",
        "year": f"{when:%Y}" if when else "",
        "note": latex(said),
        "url": address,
    }
    lines = "".join(f"  {name} = {{{of}}},\n" for name, of in fields.items() if of)
    return Citation(f"{said}. Plumbline, {address}", f"@misc{{{key},\n{lines}}}")
