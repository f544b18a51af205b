"""What is declared of a scorer, so that nobody has to know it by its name."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Any

from scoring.attributes import Attribute, Meaning
from scoring.scorers.base import Cost, Scorer, ScorerUnavailable
from scoring.scorers.replies import ReplyStore
from scoring.scorers.service import ServiceAccess
from scoring.served import CompletionsServer


class Caveat(StrEnum):
    """What the name of a scorer does not fix, as pages tag it; `meaning` says it in a sentence or two."""

    UNVERSIONED = "unversioned"
    RANDOM = "not deterministic"

    @property
    def meaning(self) -> str:
        """What follows from it for its scores."""
        return CAVEATS[self]


CAVEATS = {
    Caveat.UNVERSIONED: "Its name fixes no version of what is behind it: that may become another one overnight, and "
    "only a control check can notice.",
    Caveat.RANDOM: "Asked again, it may score the same text otherwise: control checks allow for as much as it varied "
    "when a version was opened.",
}


@dataclass(frozen=True)
class Surroundings:
    """What a board has for its scorers; each takes what it needs.

    folder: where the scorer's own files are, if there are any. is_stored: whether the board keeps such files in its
    storage, to be fetched. epoch: marks a version of what cannot be looked into. meanings: what an operator declares of
    labels. replies: keeps the answers of a service, so that interrupted work goes on. may_fetch: whether what the
    machine lacks may be downloaded. services: how services are reached, by what their settings begin with.
    guard_servers: by the name of the guard that runs there. of_member: what a member of an ensemble has.
    chat_limit_name: the field that limits an answer of a chat.
    """

    folder: Path
    is_stored: Callable[[], bool] = lambda: False
    epoch: str = ""
    meanings: Mapping[str, Meaning] = field(default_factory=dict)
    replies: ReplyStore | None = None
    may_fetch: bool = True
    hub_endpoint: str = ""
    hub_token: str | None = None
    services: Mapping[str, ServiceAccess] = field(default_factory=dict)
    guard_servers: Mapping[str, CompletionsServer] = field(default_factory=dict)
    chat_limit_name: str = "max_completion_tokens"
    of_member: Callable[[str], "Surroundings"] = lambda name: Surroundings(folder=Path(name))


def no_options(_surroundings: Surroundings) -> dict[str, Any]:
    """Of a scorer that needs nothing."""
    return {}


def no_problem(_choice: str, _surroundings: Surroundings) -> ScorerUnavailable | None:
    """Of a scorer that only loading can find missing."""
    return None


def no_cost(_choice: str, _surroundings: Surroundings) -> Cost | None:
    """Of a scorer that runs here."""
    return None


def no_caveats(_choice: str) -> tuple[Caveat, ...]:
    """Of a scorer that is the same for ever."""
    return ()


def no_members(_choice: str) -> tuple[str, ...]:
    """Of a scorer that asks no other one."""
    return ()


def no_end(_choice: str, _surroundings: Surroundings) -> date | None:
    """Of a scorer that nobody has announced the end of."""
    return None


def no_conversion(source: Path, _target: Path) -> Path:
    """Of files that are loaded as they are."""
    return source


def describe_terms(languages: Sequence[str], licence: str) -> str:
    """The languages of a scorer, by code, and its licence, in a sentence each; ["mul"]: more than anybody lists."""
    names = "many" if list(languages) == ["mul"] else ", ".join(languages)
    return f"Languages: {names}. Licence: {licence}."


@dataclass(frozen=True, slots=True)
class ScorerDeclaration:
    """`name` as people write it, capitals standing for a choice of theirs; what it is; whether texts leave the machine.

    build: makes the scorer of what stands for the capitals ("" where there are none) and its options. limits: what its
    scores do not tell, a sentence or two each. options: those of `build` in some surroundings. problem: why the scorer
    cannot be had there, as far as is known without loading it or asking anyone. cost: of a text, where it is remote;
    then its answers are kept for interrupted work, and its fingerprint takes the epoch. read_labels: what the labels of
    a classifier in a folder mean, where an operator may declare that. quick: whether it is read anew each time, as that
    takes no loading. exact: whether it is nothing but what its fingerprint is of, so that another one is another scorer
    whatever control texts say. import_command: what brings its files; "" where it has none. convert: takes the folder
    of its files as they are published and a new one, and returns the one to load: the new one where pickles had to be
    converted. caveats: what the choice does not fix. ends: the last day on which it can be had, as its makers announced
    it. members: the scorers that an ensemble asks, by name.
    """

    name: str
    title: str
    remote: bool
    build: Callable[..., Scorer]
    limits: tuple[str, ...] = ()
    options: Callable[[Surroundings], dict[str, Any]] = no_options
    problem: Callable[[str, Surroundings], ScorerUnavailable | None] = no_problem
    cost: Callable[[str, Surroundings], Cost | None] = no_cost
    read_labels: Callable[[str, Mapping[str, Meaning]], tuple[Attribute, ...]] | None = None
    quick: bool = False
    exact: bool = False
    import_command: str = "import_scorer"
    convert: Callable[[Path, Path], Path] = no_conversion
    caveats: Callable[[str], tuple[Caveat, ...]] = no_caveats
    ends: Callable[[str, Surroundings], date | None] = no_end
    members: Callable[[str], tuple[str, ...]] = no_members

    @property
    def prefix(self) -> str:
        """What names of the scorer begin with: all of the name, or up to the colon before capitals."""
        head, colon, choice = self.name.partition(":")
        return head + colon if choice.isupper() else self.name

    def choice(self, name: str) -> str:
        """What stands for the capitals in `name`."""
        return name.removeprefix(self.prefix)

    def covers(self, name: str) -> bool:
        """Whether `name` is one of the scorer's."""
        choice = self.choice(name)
        return name == self.prefix + choice and bool(choice) == self.prefix.endswith(":")

    def caveats_of(self, name: str) -> tuple[Caveat, ...]:
        """What the name of this one does not fix."""
        return self.caveats(self.choice(name))

    def limits_of(self, name: str) -> tuple[str, ...]:
        """What scores of this one do not tell, a sentence or two each."""
        return (*self.limits, *(caveat.meaning for caveat in self.caveats_of(name)))

    def build_in(self, name: str, surroundings: Surroundings) -> Scorer:
        """The scorer called `name`. Raises ScorerUnavailable, with what to do; ValueError for a wrong option."""
        return self.build(self.choice(name), **self.options(surroundings))
