"""The papers behind the board's numbers: of a metric's formula and texts, and of the figures that were published."""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from leaderboard.formats import latex
from leaderboard.models import MetricVersion
from leaderboard.services.figures import FOLDER


@dataclass(frozen=True, slots=True)
class SourcePaper:
    """A paper, and what it is behind: formulas and evaluation sets by name, sources of figures by `words` in them."""

    key: str
    author: str
    title: str
    year: int
    arxiv: str
    formulas: tuple[str, ...] = ()
    sets: tuple[str, ...] = ()
    words: tuple[str, ...] = ()

    @property
    def bibtex(self) -> str:
        """Its entry."""
        fields = {
            "author": latex(self.author),
            "title": f"{{{latex(self.title)}}}",
            "year": str(self.year),
            "eprint": self.arxiv,
            "archiveprefix": "arXiv",
            "url": f"https://arxiv.org/abs/{self.arxiv}",
        }
        lines = [f"  {name:<13} = {{{value}}}," for name, value in fields.items()]
        return "\n".join([f"@misc{{{self.key},", *lines, "}"])

    def is_behind(self, version: MetricVersion) -> bool:
        """Whether numbers of `version` rest on it."""
        return (
            version.metric.formula_name in self.formulas
            or version.protocol.evaluation_set.slug in self.sets
            or any(word in version.source for word in self.words)
        )


@lru_cache(maxsize=1)
def all_papers() -> list[SourcePaper]:
    """Every paper of `leaderboard/published/references.toml`, in its order."""
    with (FOLDER / "references.toml").open("rb") as file:
        entries = tomllib.load(file)
    lists = ("formulas", "sets", "words")
    return [
        SourcePaper(key, **(entry | {name: tuple(entry.get(name, ())) for name in lists}))
        for key, entry in entries.items()
    ]


def list_papers(versions: Sequence[MetricVersion]) -> list[SourcePaper]:
    """The papers that numbers of `versions` rest on: first those that printed figures, then those of the measure."""
    papers = [paper for paper in all_papers() if any(map(paper.is_behind, versions))]

    def is_no_source(paper: SourcePaper) -> bool:
        return not any(word in version.source for version in versions for word in paper.words)

    return sorted(papers, key=is_no_source)
