"""What is done with models in a cage: they are described, loaded and run. It needs the engine's libraries."""

from dataclasses import asdict
from pathlib import Path

import pyarrow as pa

# What loading and running any model imports: here, once for all cages.
import transformers.generation.utils
import transformers.masking_utils
import transformers.modeling_layers
import transformers.modeling_utils
import transformers.models.auto.tokenization_auto  # noqa: F401
from transformers.conversion_mapping import get_checkpoint_conversion_mapping

from scoring.cage.room import Answered, Room, Values
from scoring.cage.schemas import CONTINUATIONS, LIKELIHOODS, READINGS, TOKENS, read_passages, read_prompts, read_texts
from scoring.generation import ChatSettings, continuations, continuations_table, settings_of, with_log_perplexities
from scoring.generation.chat import MOST_SECONDS, find_format, time_limit
from scoring.language_models.chat_template import hash_template
from scoring.language_models.describing import describe
from scoring.language_models.loading import load_files
from scoring.language_models.tokenizer_report import read_all
from scoring.likelihood import LikelihoodSettings, SpecialTokens, likelihoods_table, token_log_likelihoods
from scoring.likelihood.tokens import encode
from scoring.self_test import self_test

get_checkpoint_conversion_mapping("")  # a thousand patterns, which are compiled at the first call

# A text with all letters, digits and common marks: a tokenizer that fails on these fails on anything.
PROBE = "The quick brown fox jumps over the lazy dog, 0123456789 times: it's (really) \"done\"; isn't it?"


def describe_model(room: Room, arguments: Values, _table: pa.Table | None) -> Answered:
    room.enter("reading the configuration")
    description = describe(Path(arguments["path"]), arguments["name"], arguments["files"])
    detail = {
        "licence": description.licence,
        "weights": list(description.weights),
        "chat_template": description.chat_template,
        "weight_format": description.weight_format,
    }
    return {"architecture": asdict(description.architecture), **detail}, None


def open_model(room: Room, arguments: Values, _table: pa.Table | None) -> Answered:
    room.enter("loading the model")
    room.model = load_files(Path(arguments["path"]), arguments["name"], precision=arguments["precision"])
    room.enter("trying the tokenizer")
    room.model.tokenizer([PROBE, "a"], add_special_tokens=False, split_special_tokens=True, verbose=False)
    detail = {"device": str(room.model.device), "files": list(room.model.files)}
    return {"architecture": asdict(room.model.architecture), **detail}, None


def check_model(room: Room, _arguments: Values, _table: pa.Table | None) -> Answered:
    room.enter("comparing the engine with the model's plain forward")
    return self_test(room.loaded).as_json(), None


def name_special_tokens(room: Room, arguments: Values, _table: pa.Table | None) -> Answered:
    settings = LikelihoodSettings(**arguments["settings"])
    return {"shown": SpecialTokens.for_model(room.loaded, settings).describe(room.loaded)[:1000]}, None


def tokenize_texts(room: Room, _arguments: Values, table: pa.Table | None) -> Answered:
    room.enter("reading the texts with the tokenizer")
    reading = read_all(room.loaded, read_texts(table))
    rows = pa.table({"changed": reading.changed, "rate": reading.rates}, schema=READINGS)
    return {"pieces": reading.pieces, "ordinary": list(reading.ordinary)}, rows


def list_token_ids(room: Room, arguments: Values, table: pa.Table | None) -> Answered:
    room.enter("reading the texts with the tokenizer")
    encodings = encode(room.loaded, read_texts(table), LikelihoodSettings(**arguments["settings"]))
    return {}, pa.table({"tokens": [text.ids for text in encodings]}, schema=TOKENS)


def compute_likelihoods(room: Room, arguments: Values, table: pa.Table | None) -> Answered:
    room.enter("computing likelihoods")
    settings = LikelihoodSettings(**arguments["settings"])
    likelihoods = list(token_log_likelihoods(room.loaded, read_passages(table), settings, room.progress))
    return {}, likelihoods_table([""] * len(likelihoods), likelihoods).select(LIKELIHOODS.names)


def describe_chat(room: Room, arguments: Values, _table: pa.Table | None) -> Answered:
    room.enter("rendering the chat template")
    with time_limit(MOST_SECONDS):
        chat_format = find_format(room.loaded, ChatSettings(**arguments["settings"]))
    template = hash_template(room.loaded.tokenizer.chat_template)
    return {"template": template, "system_role": chat_format.system_role, "opening": chat_format.opening}, None


def continue_prompts(room: Room, arguments: Values, table: pa.Table | None) -> Answered:
    room.enter("continuing prompts")
    settings = settings_of(arguments["settings"])
    prompts = read_prompts(table)
    results = continuations(room.loaded, prompts, settings, room.progress)
    if arguments["log_perplexities"]:
        room.enter("computing likelihoods")
        results = with_log_perplexities(room.loaded, prompts, results)
    return {}, continuations_table(prompts, results).select(CONTINUATIONS.names)


VERBS = {
    "describe": describe_model,
    "open": open_model,
    "self test": check_model,
    "special tokens": name_special_tokens,
    "read texts": tokenize_texts,
    "token ids": list_token_ids,
    "likelihoods": compute_likelihoods,
    "chat format": describe_chat,
    "continuations": continue_prompts,
}
