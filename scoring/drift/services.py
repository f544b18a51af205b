"""Whether a service still answers as it did: frozen openings at temperature 0, and likelihoods where it gives them.

The rule. A baseline asks every opening ROUNDS times; those that were not answered alike each time, as by a server that
batches, are never compared. A check asks the others once. An opening answered otherwise is asked again, and again: the
service has changed where ASKINGS answers in a row differ from the baseline. An opening that was answered otherwise less
often flickers, and is not compared from then on. The service has also changed where the likelihood of a control
sentence moved by more than STEADY nats a token, or four times what it moved between two askings of the baseline; this
has to show twice.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from scoring.evaluation_sets.prompts import Prompt
from scoring.likelihood import LikelihoodSettings
from scoring.likelihood.server import LikelihoodWay, server_likelihoods
from scoring.likelihood.verification import STEADY
from scoring.served import CompletionsServer
from scoring.served.answers import greedy_answers
from scoring.served.control import SHA256, build_control_openings, build_control_sentences

ROUNDS = 5
ASKINGS = 3
EVERY = 8  # control sentences, of which one is watched
NOISES = 4.0  # times the noise of the baseline that a likelihood may move


@dataclass(frozen=True, slots=True)
class Baseline:
    """What a service answered when it was asked for the first time.

    texts: of the openings that it answered alike in each round, by id. unstable: the other openings. likelihoods: mean
    log-likelihood a token of control sentences, in nats; noise: the largest difference between two askings. sha256: of
    the control texts.
    """

    texts: dict[str, str]
    unstable: list[str]
    likelihoods: dict[str, float] = field(default_factory=dict)
    noise: float = 0.0
    sha256: str = SHA256

    def as_json(self) -> dict[str, Any]:
        """Values that `from_json` reads."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Baseline":
        """The baseline that `as_json` wrote."""
        return cls(**values)

    def without(self, flickering_ids: Sequence[str]) -> "Baseline":
        """The baseline without openings that turned out to flicker."""
        texts = {id_: text for id_, text in self.texts.items() if id_ not in flickering_ids}
        return replace(self, texts=texts, unstable=[*self.unstable, *flickering_ids])

    @property
    def tolerance(self) -> float:
        """How much a likelihood may move, in nats a token."""
        return max(STEADY, NOISES * self.noise)


@dataclass(frozen=True, slots=True)
class ServiceReport:
    """What a check found. changed: openings answered otherwise each time; flickering: not each time. moved: sentences.

    largest: the largest move of a likelihood, in nats a token. compared: how many openings were.
    """

    changed: list[str]
    flickering: list[str]
    moved: list[str]
    largest: float
    compared: int

    @property
    def has_changed(self) -> bool:
        """Whether the service is another one than at the baseline."""
        return bool(self.changed or self.moved)

    def as_json(self) -> dict[str, Any]:
        """Its fields."""
        return asdict(self)

    def __str__(self) -> str:
        parts = []
        if self.changed:
            parts.append(
                f"{len(self.changed)} of {self.compared} openings are answered otherwise, three times in a row"
            )
        if self.moved:
            parts.append(f"the likelihood of {len(self.moved)} control sentences moved, by {self.largest:.3f} at most")
        return "; ".join(parts) or f"{self.compared} openings are answered as before"


def take_baseline(server: CompletionsServer, way: LikelihoodWay | None, chat_limit: str | None) -> Baseline:
    """Ask a service its control texts for the first time. Raises ServerRefused, ServerUnavailable, ServiceChanged."""
    openings = build_control_openings()
    rounds = [greedy_answers(server, openings, chat_limit) for _ in range(ROUNDS)]
    texts, unstable = {}, []
    for opening, *answers in zip(openings, *rounds, strict=True):
        first = answers[0]
        if first is not None and all(answer == first for answer in answers):
            texts[opening.id] = first
        else:
            unstable.append(opening.id)
    likelihoods = ask_likelihoods(server, way)
    noise = _largest_move(likelihoods, ask_likelihoods(server, way)) if likelihoods else 0.0
    return Baseline(texts, unstable, likelihoods, noise)


def check_service(
    server: CompletionsServer, way: LikelihoodWay | None, baseline: Baseline, chat_limit: str | None
) -> ServiceReport:
    """Ask the stable control texts again. Raises ServerRefused, ServerUnavailable, ServiceChanged."""
    openings = [opening for opening in build_control_openings() if opening.id in baseline.texts]
    first = suspects = _find_other_answers(server, openings, baseline, chat_limit)
    for _ in range(ASKINGS - 1):
        suspects = _find_other_answers(server, suspects, baseline, chat_limit)
    other_ids = [opening.id for opening in suspects]
    moved_ids, largest = _find_moves(server, way, baseline)
    if moved_ids:
        moved_ids, largest = _find_moves(server, way, baseline)
    flickering_ids = [opening.id for opening in first if opening.id not in other_ids]
    return ServiceReport(other_ids, flickering_ids, moved_ids, largest, len(openings))


def ask_likelihoods(server: CompletionsServer, way: LikelihoodWay | None) -> dict[str, float]:
    """Mean log-likelihood a token of the watched sentences, by id; none where the server gives no likelihoods."""
    if way is None:
        return {}
    sentences = build_control_sentences()[::EVERY]
    settings = LikelihoodSettings(bos="prepend" if way.leads else "none")
    answers = server_likelihoods(server, way, [sentence.text for sentence in sentences], settings)
    return {
        sentence.id: float(answer.likelihood.tokens.mean())
        for sentence, answer in zip(sentences, answers, strict=True)
        if answer.likelihood.unscorable is None
    }


def _find_other_answers(
    server: CompletionsServer, openings: Sequence[Prompt], baseline: Baseline, chat_limit: str | None
) -> list[Prompt]:
    """The openings that are not answered as in the baseline."""
    answers = greedy_answers(server, openings, chat_limit) if openings else []
    return [opening for opening, answer in zip(openings, answers, strict=True) if answer != baseline.texts[opening.id]]


def _find_moves(server: CompletionsServer, way: LikelihoodWay | None, baseline: Baseline) -> tuple[list[str], float]:
    """The sentences whose likelihood moved by more than is tolerated, and the largest move of all."""
    now = ask_likelihoods(server, way) if baseline.likelihoods else {}
    moved_ids = [
        id_
        for id_, value in baseline.likelihoods.items()
        if id_ not in now or abs(now[id_] - value) > baseline.tolerance
    ]
    return moved_ids, _largest_move(baseline.likelihoods, now)


def _largest_move(earlier: Mapping[str, float], now: Mapping[str, float]) -> float:
    return max((abs(now[id_] - value) for id_, value in earlier.items() if id_ in now), default=0.0)
