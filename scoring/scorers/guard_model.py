"""Guard models run in this process: the probability of each verdict under the model's own chat template."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jinja2.exceptions import TemplateError

from scoring.artefacts import sha256
from scoring.language_models import HubUnavailable, LoadedModel, ModelRefused
from scoring.language_models.chat_template import pin_date
from scoring.language_models.hub import PUBLIC_HUB
from scoring.language_models.loading import load_files
from scoring.likelihood.batches import token_budget_batches
from scoring.likelihood.head import body, head_alone
from scoring.parts import Parts, parts_for
from scoring.scorers.base import Progress, Scorer, ScorerUnavailable, Scores, fingerprint_of
from scoring.scorers.encoder import LIBRARIES
from scoring.scorers.guards import GuardDeclaration, GuardQuestion
from scoring.scorers.hub_files import find_files
from scoring.scorers.precision import require_fast_precision
from scoring.work_sizes import sizes_for

LONGEST = 8192  # tokens of a prompt with its text; longer texts are cut, so that memory suffices
DATE = "2026-01-01"  # what a template gets that asks for today
PROBE = "The quick brown fox"
NO_ROOM = "the questions of the guard leave no room for a text in the model's context"
NOT_FINITE = "the model's output for the text is not a number"
NOT_RENDERED = "the chat template cannot render the text"


@dataclass(frozen=True, slots=True)
class ReadyQuestion:
    """A question in the model's tokens.

    template: writes the prompt up to the verdict. verdict_ids: the first token of each verdict. tail: what follows the
    prompt up to the category; category_ids: the first token of each.
    """

    question: GuardQuestion
    template: str
    verdict_ids: list[int]
    tail: list[int]
    category_ids: list[int]


class GuardScorer(Scorer):
    """A guard of guards.toml. A text that does not fit the context is cut at its end, and counted as truncated.

    The precision is the declared one. Below float32, other batches may move a score in its third decimal.
    """

    def __init__(
        self,
        guard: GuardDeclaration,
        *,
        folder: Path | None = None,
        revision: str | None = None,
        endpoint: str = PUBLIC_HUB,
        token: str | None = None,
        may_fetch: bool = True,
        device: torch.device | None = None,
    ) -> None:
        """Load the guard in `folder`, or of its hub id at `revision` (a branch, tag or commit).

        folder: of a transformers model, or with one GGUF file. Raises ScorerUnavailable, with a remedy, where there is
        none, or where its template and tokenizer do not ask what is declared.
        """
        try:
            path, self.revision = _find_model(guard, folder, revision, endpoint, token, may_fetch)
            require_fast_precision(guard.precision)
            self._model = load_files(path, guard.hub_id, device=device, precision=guard.precision)
            self._questions = [prepare(self._model, guard, question) for question in guard.questions]
        except (ModelRefused, HubUnavailable) as error:
            raise ScorerUnavailable(str(error)) from error
        self.guard = guard
        self.attributes = guard.attributes
        self.longest = min(LONGEST, self._model.tokenizer.model_max_length, self._model.architecture.context)
        self._fingerprint = fingerprint_of(
            scorer="guard",
            files=_hash_files(path, self._model.files),
            declaration=guard.digest(),
            templates=[hashlib.sha256(one.template.encode()).hexdigest() for one in self._questions],
            tokens=[[one.verdict_ids, one.tail, one.category_ids] for one in self._questions],
            attributes=[attribute.as_json() for attribute in self.attributes],
            precision=self._model.precision,
            longest=self.longest,
            device=self._model.device.type,
            libraries={name: version(name) for name in LIBRARIES},
        )

    def fingerprint(self) -> str:
        """Covers weights, templates, verdict tokens, thresholds, precision, kind of device and library versions."""
        return self._fingerprint

    @torch.inference_mode()
    def _score_distinct(self, texts: list[str], progress: Progress) -> Scores:
        values = np.full((len(texts), len(self.attributes)), np.nan, dtype=np.float32)
        reasons: list[str | None] = [None] * len(texts)
        is_truncated = np.zeros(len(texts), dtype=bool)
        count, column = 0, 0
        for ready_question in self._questions:
            prompts = [self._encode(ready_question, text) for text in texts]
            for number, (_, is_cut, reason) in enumerate(prompts):
                is_truncated[number] |= is_cut
                reasons[number] = reasons[number] or reason
            places = slice(column, column + len(ready_question.question.names))
            for rows, scores in self._ask(ready_question, [ids for ids, _, _ in prompts]):
                values[rows, places] = scores
                count += len(rows)
                progress(count // len(self._questions))
            column = places.stop
        for number in np.flatnonzero(~np.isfinite(values).all(axis=1)).tolist():
            reasons[number] = reasons[number] or NOT_FINITE
            values[number] = np.nan
        progress(len(texts))
        return Scores(values, tuple(reasons), is_truncated & np.isfinite(values).all(axis=1))

    def _ask(
        self, ready_question: ReadyQuestion, prompts: Sequence[list[int]]
    ) -> Iterator[tuple[list[int], list[list[float]]]]:
        """Yield rows of `prompts`, those that are not empty, and the scores of each row."""
        places = [number for number, ids in enumerate(prompts) if ids]
        lengths = [len(prompts[place]) + len(ready_question.tail) for place in places]
        parts = parts_for(self._model)
        sizes = sizes_for(self._model.device)
        for members in token_budget_batches(lengths, sizes.batch_tokens, sizes.call_cost):
            rows = [places[member] for member in members]
            yield rows, self._score_batch(ready_question, [prompts[row] for row in rows], parts)

    def _score_batch(self, ready_question: ReadyQuestion, prompts: list[list[int]], parts: Parts) -> list[list[float]]:
        width = max(map(len, prompts)) + len(ready_question.tail)
        scores: list[list[float]] = []
        for _, part in parts.compute(prompts, width, lambda rows: self._read_shares(ready_question, list(rows))):
            scores += [ready_question.question.score(*shares) for shares in part]
        return scores

    def _read_shares(self, ready_question: ReadyQuestion, prompts: list[list[int]]) -> list[tuple[list[float], ...]]:
        """Shares of the verdicts, and of the categories if there are any, for each prompt.

        Padding stands at the end, where no token that is read looks.
        """
        device, model = self._model.device, self._model.model
        sequences = [torch.tensor([*ids, *ready_question.tail], device=device) for ids in prompts]
        inputs = torch.nn.utils.rnn.pad_sequence(sequences, batch_first=True)
        lengths = torch.tensor([len(sequence) for sequence in sequences], device=device)
        mask = (torch.arange(inputs.shape[1], device=device) < lengths[:, None]).long()
        output = body(model)(input_ids=inputs, attention_mask=mask, use_cache=False)
        rows = torch.arange(len(prompts), device=output.last_hidden_state.device)
        shares = []
        for ends, ids in (
            (lengths - len(ready_question.tail), ready_question.verdict_ids),
            (lengths, ready_question.category_ids),
        ):
            if ids:
                states = output.last_hidden_state[rows, ends.to(rows.device) - 1]
                shares.append(self._share(output, states, ids))
        return list(zip(*shares, strict=True))

    def _share(self, output: Any, states: torch.Tensor, ids: list[int]) -> list[list[float]]:
        """The softmax over the logits of tokens `ids`, for each of `states` [n, hidden]."""
        model = self._model.model
        part = torch.tensor(ids, device=model.get_output_embeddings().weight.device)
        hidden_states = output.last_hidden_state
        with head_alone(model, output, states, part):
            logits = model(input_ids=torch.zeros_like(states[:1, :1], dtype=torch.long)).logits[0]
        output.last_hidden_state = hidden_states
        shares: list[list[float]] = logits.double().softmax(-1).tolist()
        return shares

    def _encode(self, ready_question: ReadyQuestion, text: str) -> tuple[list[int], bool, str | None]:
        """The prompt about `text` in tokens, whether the text was cut, and why there is none."""
        room = self.longest - len(ready_question.tail)
        try:
            ids = render(self._model, self.guard, ready_question.question, ready_question.template, text)
            if len(ids) <= room:
                return ids, False, None
            encoding = self._model.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
            ends = [end for _, end in encoding["offset_mapping"]]
            while len(ids) > room and len(ends) > len(ids) - room:
                ends = ends[: len(ends) - (len(ids) - room)]
                ids = render(
                    self._model, self.guard, ready_question.question, ready_question.template, text[: ends[-1]]
                )
        except TemplateError:
            return [], False, NOT_RENDERED
        return (ids, True, None) if len(ids) <= room else ([], False, NO_ROOM)


def prepare(model: LoadedModel, guard: GuardDeclaration, question: GuardQuestion) -> ReadyQuestion:
    """The question as `model` reads it. Raises ModelRefused where its template or tokenizer do not allow it."""
    template = _find_template(model, guard)
    try:
        prompt = render(model, guard, question, template, PROBE, tokenize=False)
    except TemplateError as error:
        raise ModelRefused(f"the chat template of {guard.hub_id} cannot render a text ({str(error)[:300]})") from error
    if PROBE not in prompt:
        raise ModelRefused(f"the chat template of {guard.hub_id} leaves the text out: use the files of that guard")
    # A template may have written the beginning of the answer already.
    has_begun = bool(question.opening) and prompt.endswith(question.opening)
    template = write(template, "" if has_begun else question.opening)
    ids = render(model, guard, question, template, PROBE)
    verdict_ids = [_next_id(model, guard, question, template, ids, verdict) for verdict in question.verdicts]
    _require_different(guard, question.verdicts, verdict_ids)
    categories = question.categories
    if categories is None:
        return ReadyQuestion(question, template, verdict_ids, [], [])
    longer_template = write(template, categories.after + categories.opening)
    longer_ids = render(model, guard, question, longer_template, PROBE)
    _require_prefix(guard, ids, longer_ids, categories.after)
    names = list(categories.tokens.values())
    category_ids = [_next_id(model, guard, question, longer_template, longer_ids, name) for name in names]
    _require_different(guard, names, category_ids)
    return ReadyQuestion(question, template, verdict_ids, longer_ids[len(ids) :], category_ids)


def write(template: str, text: str) -> str:
    """A template that writes `text` at its end."""
    return template + "{{ " + json.dumps(text) + " }}"


def render(
    model: LoadedModel,
    guard: GuardDeclaration,
    question: GuardQuestion,
    template: str,
    text: str,
    *,
    tokenize: bool = True,
) -> Any:
    """The prompt about `text`, as token ids or as text. Names of special tokens within `text` are ordinary text."""
    return model.tokenizer.apply_chat_template(
        guard.ask(text),
        chat_template=template,
        add_generation_prompt=guard.generation_prompt,
        tokenize=tokenize,
        return_dict=False,
        sanitize_control_tokens=tokenize,
        tokenizer_kwargs={"verbose": False},  # too long a text is cut, and counted
        **question.options,
    )


def _find_template(model: LoadedModel, guard: GuardDeclaration) -> str:
    if guard.prompt:
        return guard.template
    template = model.tokenizer.chat_template
    if not isinstance(template, str):
        raise ModelRefused(f"the files of {guard.hub_id} hold no chat template: put chat_template.jinja beside them")
    return pin_date(template, DATE)


def _next_id(
    model: LoadedModel, guard: GuardDeclaration, question: GuardQuestion, template: str, ids: list[int], word: str
) -> int:
    """The first token of `word` where it follows the prompt."""
    longer_ids = render(model, guard, question, write(template, word), PROBE)
    _require_prefix(guard, ids, longer_ids, word)
    return int(longer_ids[len(ids)])


def _require_prefix(guard: GuardDeclaration, ids: list[int], longer_ids: list[int], word: str) -> None:
    if len(longer_ids) <= len(ids) or longer_ids[: len(ids)] != ids:
        raise ModelRefused(
            f"the tokenizer of {guard.hub_id} joins {word!r} to what stands before it: use the files of that guard"
        )


def _require_different(guard: GuardDeclaration, words: Sequence[str], ids: list[int]) -> None:
    if len(set(ids)) < len(ids):
        raise ModelRefused(
            f"two of {', '.join(words)} begin with the same token of {guard.hub_id}: use the files of that guard"
        )


def _find_model(
    guard: GuardDeclaration,
    folder: Path | None,
    revision: str | None,
    endpoint: str,
    token: str | None,
    may_fetch: bool,
) -> tuple[Path, str]:
    """The folder or GGUF file of the guard, and its commit where it comes from a hub."""
    if folder and not (folder / "config.json").is_file():
        files = sorted(folder.glob("*.gguf"))
        if len(files) == 1:
            return files[0], ""
    return find_files(str(folder or guard.hub_id), revision, endpoint, token, may_fetch)


def _hash_files(path: Path, names: Sequence[str]) -> dict[str, str]:
    """The sha256 of each file that the model was loaded from, by name; of a GGUF file, whatever it is called."""
    return {name: sha256(path / name) for name in sorted(names)} if path.is_dir() else {"gguf": sha256(path)}
