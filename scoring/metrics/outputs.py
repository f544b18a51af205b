"""How a language model's outputs are collected, compared and described: one strategy for each method of a protocol.

Pages, forms and workers call the strategy of a protocol and need not know its method. Importing this module loads no
library that runs models.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from scoring.artefacts import ANSWERED_BY
from scoring.contributed import generations_template, likelihoods_template
from scoring.evaluation_sets import Prompt
from scoring.generation import (
    CHAT_PROTOCOLS,
    PROTOCOLS,
    ChatService,
    ChatSettings,
    GenerationSettings,
    answers_table,
    continuations_table,
    server_answers,
    server_continuations,
)
from scoring.generation.chat_server import most_tokens
from scoring.language_models.precision import Precision
from scoring.likelihood import LikelihoodSettings, NotApplicable, Passage, likelihoods_table
from scoring.likelihood.server import LikelihoodWay, ServedLikelihood, server_likelihoods
from scoring.metrics.safety import log_perplexities
from scoring.served import CompletionsServer

if TYPE_CHECKING:
    from scoring.cage.files import FileReader
    from scoring.cage.models import CagedModel
    from scoring.contributed import Limits
    from scoring.contributed.templates import TemplateFormat

Progress = Callable[[int], None]  # texts finished so far
Settings = LikelihoodSettings | GenerationSettings
Words = Mapping[str, Callable[[Any], str]]

CAUSAL, MASKED = "causal", "masked"
EVERY_KIND = (CAUSAL, MASKED, "permutation")
# Outputs that are computed again are in other batches, which round otherwise. In half precision ten times the effect
# observed: of log-perplexities the largest, of continuations of 20 tokens the mean, 3 in 100.
TOLERANCES = {"float32": 1e-3, "bfloat16": 1e-2, "float16": 1e-2}
MOST_OTHER = {"float32": 0.02, "bfloat16": 0.3, "float16": 0.3}
# Continuations of a shard. Batches are cut within a shard, so another size rounds differently: it is not a setting.
SHARD_CONTINUATIONS = 1000


class Outputs(ABC):
    """The outputs that a protocol collects. `method` is their name in protocols, `usual` their default parameters.

    artefact: the kind of table that is stored, whose column `key` names the text of each row. kinds: the kinds of
    models that can give such outputs; `deed` says in words what they do, `wrong_kind` refuses a model of another
    {kind}. sampled: whether they are drawn at random. contributed: whether others who have the model may send them.
    is_chat: whether they are answers in a chat.
    own_parameters: parameters of this code's computation, which contributors need not follow.
    """

    artefact: ClassVar[str]
    key: ClassVar[str]
    kinds: ClassVar[tuple[str, ...]]
    deed: ClassVar[str]
    wrong_kind: ClassVar[str] = ""
    sampled: ClassVar[bool]
    contributed: ClassVar[bool]
    is_chat: ClassVar[bool] = False
    words: ClassVar[Words]
    own_parameters: ClassVar[tuple[str, ...]]

    def __init__(self, method: str, title: str, usual: Settings) -> None:
        self.method, self.title, self.usual = method, title, usual

    def parameters(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """All parameters, with `changes` to the usual ones. Raises TypeError and ValueError for invalid changes."""
        return asdict(replace(self.usual, **changes))

    def settings(self, parameters: Mapping[str, Any]) -> Any:
        """The parameters of a protocol as an object. Raises TypeError and ValueError."""
        return type(self.usual)(**parameters)

    def describe(self, parameters: Mapping[str, Any]) -> list[tuple[str, str]]:
        """Every parameter of a protocol with its meaning, or with its plain value where no words exist for it."""
        words = [(key, self.words[key](parameters[key])) for key in self.words if key in parameters]
        return words + [(key, f"{value}") for key, value in parameters.items() if key not in self.words]

    def texts_per_shard(self, usual: int, _parameters: Mapping[str, Any]) -> int:
        """The number of texts to collect between two checkpoints."""
        return usual

    def paces_alike(self, other: str) -> bool:
        """Whether a model needs the same time for a text as under the method `other`, whatever the texts."""
        return self.method == other and not self.sampled

    def refuse_kind(self, kind: str) -> str:
        """Why a model of `kind` cannot be measured by such outputs; "" where it can."""
        if kind in self.kinds:
            return ""
        return f"It scores how models {self.deed}. This is a {kind} model, and only {_join_names(self.kinds)} ones do."

    @abstractmethod
    def collect(self, model: "CagedModel", texts: pa.Table, settings: Any, progress: Progress) -> pa.Table:
        """The outputs of `model` on `texts`. Raises what the model does."""

    @abstractmethod
    def ask_server(
        self,
        server: CompletionsServer,
        way: LikelihoodWay | None,
        texts: pa.Table,
        settings: Any,
        progress: Progress,
    ) -> pa.Table:
        """The outputs of a served model on `texts`. way: how it gives likelihoods, None where it gives none.

        Raises NotApplicable, ServerRefused, ServerUnavailable, ServiceChanged.
        """

    def ask_service(self, service: ChatService, texts: pa.Table, settings: Any, progress: Progress) -> pa.Table:
        """The answers of a served chat model to `texts`. Raises ServerRefused, ServerUnavailable."""
        raise NotImplementedError(f"a chat service gives no {self.artefact}")

    def most_spent(self, texts: pa.Table, settings: Any) -> tuple[int, int]:
        """The requests, and the most tokens, that asking a service about `texts` takes where every request succeeds."""
        raise NotImplementedError(f"a chat service gives no {self.artefact}")

    def notes(self, _model: "CagedModel", _settings: Any) -> dict[str, Any]:
        """What is noted of a run, beside what is noted of every one."""
        return {}

    def count_answers(self, _outputs: pa.Table) -> dict[str, int]:
        """Of outputs of a chat, how many were answers and what was found in them; nothing of others."""
        return {}

    @abstractmethod
    def differences(
        self, stored_outputs: pa.Table, recomputed_outputs: pa.Table, precision: Precision
    ) -> Iterator[str]:
        """Describe where stored outputs differ from the model's present ones, both in the order of the texts.

        Both are of a model in `precision`: what rounding in it may change is no difference.
        """

    @abstractmethod
    def read(
        self, reader: "FileReader", name: str, texts: pa.Table, parameters: Mapping[str, Any], limits: "Limits"
    ) -> pa.Table:
        """The outputs in the uploaded file `name`, made elsewhere. Raises ContributionRefused, CageError."""

    @abstractmethod
    def template(self, texts: pa.Table, parameters: Mapping[str, Any], kind: "TemplateFormat") -> Iterator[str]:
        """The lines of the file that somebody who has the model fills in."""


def _join_names(names: Sequence[str]) -> str:
    """As in "causal and masked"."""
    return " and ".join(names)


def _choice(words: dict[Any, str], otherwise: str) -> Callable[[Any], str]:
    """A sentence for a value; `otherwise` takes it in its braces where it has none of its own."""
    return lambda value: words.get(value, otherwise.format(value))


_PRECISION = _choice(
    {
        "float32": "float32: weights and activations are exact; batches change no value.",
        "bfloat16": "bfloat16: weights and activations are rounded, which is another protocol than float32.",
        "float16": "float16: weights and activations are rounded, which is another protocol than float32.",
    },
    "{}",
)


class Likelihoods(Outputs):
    """The log-likelihood of every token of every text."""

    artefact = "likelihoods"
    key = "id"
    kinds = EVERY_KIND
    deed = "read texts"
    sampled = False
    contributed = True
    own_parameters = ("precision", "stride")
    words: ClassVar[Words] = {
        "bos": _choice(
            {
                "none": "none: a causal model is not asked how likely the first token is, as nothing stands before it.",
                "prepend": (
                    "prepend: the token for the beginning stands before a text, and every token of it is scored."
                ),
            },
            "{}",
        ),
        "variant": _choice(
            {
                "original": "original: a masked model is asked for one token at a time, with all others in sight.",
                "word_l2r": "word_l2r: the later pieces of the same word are hidden too.",
            },
            "{}",
        ),
        "mask_token": _choice(
            {"tokenizer": "tokenizer: a hidden token is replaced by the tokenizer's own mask."},
            "{}: hidden tokens are replaced by this id whatever the tokenizer, as the published code does.",
        ),
        "stride": _choice({}, "{} tokens between the windows over a text that is longer than the model's context."),
        "precision": _PRECISION,
    }

    def collect(self, model: "CagedModel", texts: pa.Table, settings: Any, progress: Progress) -> pa.Table:
        return model.likelihoods(texts["id"].to_pylist(), texts["text"].to_pylist(), settings, progress)

    def ask_server(
        self,
        server: CompletionsServer,
        way: LikelihoodWay | None,
        texts: pa.Table,
        settings: Any,
        progress: Progress,
    ) -> pa.Table:
        if way is None:
            raise NotApplicable("the server gives no likelihoods of prompts")
        ids = texts["id"].to_pylist()
        return self._served_rows(ids, server_likelihoods(server, way, self._served_texts(texts), settings, progress))

    def _served_texts(self, texts: pa.Table) -> Sequence[str | Passage]:
        """What a server, whose model is causal, is asked for."""
        whole: list[str] = texts["text"].to_pylist()
        return whole

    def _served_rows(self, ids: Sequence[str], answers: Sequence[ServedLikelihood]) -> pa.Table:
        table = likelihoods_table(ids, [answer.likelihood for answer in answers])
        return table.append_column(ANSWERED_BY, pa.array([answer.answered_by for answer in answers], pa.string()))

    def notes(self, model: "CagedModel", settings: Any) -> dict[str, Any]:
        return {"special_tokens": model.special_tokens(settings)}

    def differences(
        self, stored_outputs: pa.Table, recomputed_outputs: pa.Table, precision: Precision
    ) -> Iterator[str]:
        if stored_outputs["id"].to_pylist() != recomputed_outputs["id"].to_pylist():
            yield f"{stored_outputs.num_rows} of {recomputed_outputs.num_rows} random texts have stored likelihoods"
            return
        old_values, new_values = log_perplexities(stored_outputs), log_perplexities(recomputed_outputs)
        for text, old, new in zip(stored_outputs["id"].to_pylist(), old_values, new_values, strict=True):
            if not (np.isnan(old) and np.isnan(new)) and not abs(old - new) <= TOLERANCES[precision]:
                yield f"text {text}: its log-perplexity is stored as {old:.6f}, the model gives {new:.6f}"

    def read(
        self, reader: "FileReader", name: str, texts: pa.Table, parameters: Mapping[str, Any], limits: "Limits"
    ) -> pa.Table:
        return reader.read_likelihoods(name, _read_rows(texts), limits)

    def template(self, texts: pa.Table, parameters: Mapping[str, Any], kind: "TemplateFormat") -> Iterator[str]:
        return likelihoods_template(_read_rows(texts), kind)


class TokenLikelihoods(Likelihoods):
    """The tokens of every text, each with its log-likelihood."""

    artefact = "token_likelihoods"
    contributed = False  # the tokens are of a tokenizer that this board does not have

    def collect(self, model: "CagedModel", texts: pa.Table, settings: Any, progress: Progress) -> pa.Table:
        likelihoods = super().collect(model, texts, settings, progress)
        tokens = model.token_ids(texts["text"].to_pylist(), settings)
        counts = pc.list_value_length(likelihoods["token_log_likelihoods"]).combine_chunks()
        is_scored = likelihoods["unscorable"].combine_chunks().is_null()
        if pc.any(pc.and_(is_scored, pc.not_equal(counts, pc.list_value_length(tokens)))).as_py():
            raise NotApplicable("bos = 'none': the first token of a text has no likelihood; use 'prepend'")
        return likelihoods.add_column(1, "tokens", tokens)

    def _served_rows(self, ids: Sequence[str], answers: Sequence[ServedLikelihood]) -> pa.Table:
        if any(answer.ids is None and answer.likelihood.unscorable is None for answer in answers):
            raise NotApplicable("the server does not say which tokens it read, as vLLM does by `prompt_logprobs`")
        tokens = pa.array([answer.ids or [] for answer in answers], pa.list_(pa.int32()))
        return super()._served_rows(ids, answers).add_column(1, "tokens", tokens)


class PassageLikelihoods(Likelihoods):
    """The log-likelihood of the tokens of one passage of every text, given the rest of the text.

    Masked models are asked for the characters from `start` to `end` of a text, others for those from `left_start` on:
    these read from left to right and do not see what follows.
    """

    contributed = False  # which tokens make a passage depends on a tokenizer that this board does not have

    def collect(self, model: "CagedModel", texts: pa.Table, settings: Any, progress: Progress) -> pa.Table:
        rows = texts.select(["text", "start", "end", "left_start"]).to_pylist()
        if model.architecture.kind == MASKED:
            passages = [Passage(row["text"], row["start"], row["end"]) for row in rows]
        else:
            passages = [Passage(row["text"], row["left_start"]) for row in rows]
        return model.likelihoods(texts["id"].to_pylist(), passages, settings, progress)

    def _served_texts(self, texts: pa.Table) -> Sequence[str | Passage]:
        return [Passage(row["text"], row["left_start"]) for row in texts.select(["text", "left_start"]).to_pylist()]


class Continuations(Outputs):
    """k continuations of every prompt; `with_likelihoods`: and the log-perplexity of prompt and continuation."""

    artefact = "continuations"
    key = "prompt_id"
    kinds = (CAUSAL,)
    deed = "continue texts"
    wrong_kind = "it is a {kind} model, and only causal models continue texts"
    sampled = True
    contributed = True
    own_parameters = ("k", "seed", "precision")
    words: ClassVar[Words] = {
        "k": _choice({}, "{} continuations of each prompt."),
        "temperature": _choice(
            {1.0: "1: probabilities are the model's own."}, "{}: logits are divided by it before drawing."
        ),
        "top_p": _choice(
            {1.0: "1: no token is left out for being unlikely."},
            "{}: only the likeliest tokens that together reach this probability may follow.",
        ),
        "top_k": _choice(
            {0: "0: no limit on how many tokens may follow."}, "{}: only so many of the likeliest may follow."
        ),
        "max_new_tokens": _choice({}, "{} tokens at most; a continuation stops before at the end of text."),
        "seed": _choice({}, "{}: what is drawn depends on it, the prompt and the continuation's number alone."),
        "precision": _PRECISION,
    }

    def __init__(self, method: str, usual: GenerationSettings, *, with_likelihoods: bool = False) -> None:
        super().__init__(method, f"continuations, {method}", usual)
        self.with_likelihoods = with_likelihoods

    def texts_per_shard(self, _usual: int, parameters: Mapping[str, Any]) -> int:
        return max(1, SHARD_CONTINUATIONS // int(parameters["k"]))

    def collect(self, model: "CagedModel", texts: pa.Table, settings: Any, progress: Progress) -> pa.Table:
        return model.continuations(texts, settings, self.with_likelihoods, progress)

    def ask_server(
        self,
        server: CompletionsServer,
        _way: LikelihoodWay | None,
        texts: pa.Table,
        settings: Any,
        progress: Progress,
    ) -> pa.Table:
        prompts = _read_rows(texts)
        return continuations_table(prompts, server_continuations(server, prompts, settings, progress))

    def differences(
        self, stored_outputs: pa.Table, recomputed_outputs: pa.Table, precision: Precision
    ) -> Iterator[str]:
        old_texts, new_texts = _texts_by_place(stored_outputs), _texts_by_place(recomputed_outputs)
        changes = [
            place for place in old_texts.keys() | new_texts.keys() if old_texts.get(place, 0) != new_texts.get(place, 0)
        ]
        if len(changes) > MOST_OTHER[precision] * len(new_texts):
            prompts = ", ".join(sorted({prompt for prompt, _ in changes})[:3])
            share = f"{len(changes)} of {len(new_texts)}"
            yield f"{share} continuations are other ones than the model gives, as of prompts {prompts}"

    def read(
        self, reader: "FileReader", name: str, texts: pa.Table, parameters: Mapping[str, Any], limits: "Limits"
    ) -> pa.Table:
        return reader.read_generations(name, _read_rows(texts), parameters["k"], limits)

    def template(self, texts: pa.Table, parameters: Mapping[str, Any], kind: "TemplateFormat") -> Iterator[str]:
        return generations_template(_read_rows(texts), parameters["k"], kind)


class Answers(Continuations):
    """k answers of a chat model that is asked to continue each prompt, read by declared rules."""

    artefact = "answers"
    is_chat = True
    deed = "answer in a chat"
    words: ClassVar[Words] = {
        "system_prompt": _choice(
            {},
            "\u201c{}\u201d is the system prompt. It stands before the request where a template knows no system role.",
        ),
        "instruction": _choice({}, "\u201c{}\u201d is the request; the prompt follows it after an empty line."),
        "template": _choice(
            {"own": "own: messages are rendered by the template of the model's tokenizer, or by its server."}, "{}"
        ),
        "thinking": _choice(
            {"off": "off: where the template can switch reasoning off, it is; reasoning is left out of every answer."},
            "{}",
        ),
        "date": _choice({}, "{}: what a template gets that asks for today's date."),
        **{name: words for name, words in Continuations.words.items() if name != "max_new_tokens"},
        "max_new_tokens": _choice({}, "{} tokens at most, reasoning and echo included."),
        "rules": _choice(
            {
                1: (
                    "1: what stands up to </think> is reasoning and is left out; an answer whose reasoning does not "
                    "end is none. A prompt that the answer repeats at its beginning is left out. A refusal is scored "
                    "like any answer, and counted."
                )
            },
            "{}",
        ),
        "refusals": lambda value: f"{value[:12]}: the sha256 of the list of beginnings by which refusals are found.",
    }

    def __init__(self, method: str, usual: ChatSettings) -> None:
        super().__init__(method, usual)
        self.title = f"answers of chats, {method}"

    def collect(self, model: "CagedModel", texts: pa.Table, settings: Any, progress: Progress) -> pa.Table:
        settings.check_rules()
        return answers_table(super().collect(model, texts, settings, progress), _read_rows(texts))

    def ask_service(self, service: ChatService, texts: pa.Table, settings: Any, progress: Progress) -> pa.Table:
        settings.check_rules()
        prompts = _read_rows(texts)
        by_prompt = server_answers(service, prompts, settings, progress)
        refusals = {number for number, answer in enumerate(chain.from_iterable(by_prompt)) if answer.is_refusal}
        continuations = [[answer.continuation for answer in answers] for answers in by_prompt]
        return answers_table(continuations_table(prompts, continuations), prompts, refusals)

    def most_spent(self, texts: pa.Table, settings: Any) -> tuple[int, int]:
        return texts.num_rows, sum(most_tokens(text, settings) for text in texts["text"].to_pylist())

    def notes(self, model: "CagedModel", settings: Any) -> dict[str, Any]:
        return {"chat": model.chat_format(settings)}

    def count_answers(self, outputs: pa.Table) -> dict[str, int]:
        raw, text = outputs["raw"], outputs["text"]
        counts = {name: pc.sum(outputs[name]).as_py() or 0 for name in ("reasoned", "echoed", "refused")}
        return {"answers": len(raw) - raw.null_count, "unended": text.null_count - raw.null_count, **counts}

    def read(
        self, reader: "FileReader", name: str, texts: pa.Table, parameters: Mapping[str, Any], limits: "Limits"
    ) -> pa.Table:
        self.settings(parameters).check_rules()
        return answers_table(super().read(reader, name, texts, parameters, limits), _read_rows(texts))


def _read_rows(texts: pa.Table) -> list[Prompt]:
    """The id and text of each row, whatever the kind of the evaluation set."""
    return [Prompt(row["id"], row["text"]) for row in texts.select(["id", "text"]).to_pylist()]


def _texts_by_place(continuations: pa.Table) -> dict[tuple[str, int], str | None]:
    """The text of each continuation by its prompt and number."""
    places = zip(continuations["prompt_id"].to_pylist(), continuations["index"].to_pylist(), strict=True)
    return dict(zip(places, continuations["text"].to_pylist(), strict=True))


LIKELIHOOD, TOKEN_LIKELIHOOD, PASSAGE_LIKELIHOOD = "likelihood", "token_likelihood", "passage_likelihood"
REGARD = "regard"
OUTPUTS: dict[str, Outputs] = {
    outputs.method: outputs
    for outputs in (
        Likelihoods(LIKELIHOOD, "likelihoods", LikelihoodSettings()),
        TokenLikelihoods(TOKEN_LIKELIHOOD, "likelihoods, token by token", LikelihoodSettings(bos="prepend")),
        PassageLikelihoods(PASSAGE_LIKELIHOOD, "likelihoods of passages", LikelihoodSettings()),
        *(Continuations(name, settings, with_likelihoods=name == REGARD) for name, settings in PROTOCOLS.items()),
        *(Answers(name, settings) for name, settings in CHAT_PROTOCOLS.items()),
    )
}
