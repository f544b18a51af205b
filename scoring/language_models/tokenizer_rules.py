"""What a tokenizer may consist of: components and patterns that are reviewed, everything else refused by name.

The components are those of the tokenizers library, described as its tokenizer.json describes them. A tokenizer reads a
text in four steps: it normalises it, cuts it, looks pieces up, and adds special tokens. The first two could replace a
text by another one, or run for ever, so only what the known model families use is accepted there.
"""

import base64
import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from scoring.language_models.charsmap import check_charsmap
from scoring.language_models.refusals import ModelRefused
from scoring.language_models.tokenizer_patterns import KEPT, LITERALS, PATTERNS, escape_breaks

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Component = dict[str, Any]

MOST_COMPONENTS = 32  # of each step; four chained replacements can make a thousand thousand million letters of one
MOST_PIECES = 32  # that a post-processor puts around a text
MOST_ADDED_TOKENS = 100_000
LONGEST_ADDED_TOKEN = 256  # characters
MOST_VOCABULARY = 2**22

NORMALIZERS = {"NFC", "NFD", "NFKC", "NFKD", "Nmt", "Lowercase", "StripAccents", "Strip", "BertNormalizer", "ByteLevel"}
# (kind of pattern, pattern, what is put there): SentencePiece's spaces, ALBERT's and XLNet's quotes, CLIP's spaces.
REPLACEMENTS = {
    ("String", " ", "▁"),
    ("String", "``", '"'),
    ("String", "''", '"'),
    ("Regex", " {2,}", " "),
    ("Regex", " {2,}", "▁"),
    ("Regex", r"\s+", " "),
    ("String", "\n", " "),
    ("Regex", r"\n", " "),
}
PREPENDED = {"▁", " "}
PRE_TOKENIZERS = {"BertPreTokenizer", "ByteLevel", "Digits", "Punctuation", "Whitespace", "WhitespaceSplit"}
PRE_TOKENIZERS |= {"UnicodeScripts"}
KEEPING = {"Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"}  # ways of cutting that lose nothing
DECODERS = {"ByteFallback", "ByteLevel", "Fuse"}
MODELS = {"BPE", "WordPiece", "Unigram", "WordLevel"}
POST_PROCESSORS = {"ByteLevel", "BertProcessing", "RobertaProcessing", "TemplateProcessing"}
# Tokenizers that transformers runs in Python, by rules that its own code fixes.
PYTHON_TOKENIZERS = {
    "BertweetTokenizer",
    "BioGptTokenizer",
    "ByT5Tokenizer",
    "CTRLTokenizer",
    "CanineTokenizer",
    "FlaubertTokenizer",
    "PhobertTokenizer",
    "XLMTokenizer",
}
# What transformers would hand to a tokenizer's class: parts of it that are no file of the model.
CONSTRUCTION = {
    "_spm_precompiled_charsmap",
    "gguf_file",
    "init_inputs",
    "merges",
    "pretrained_tokenizer",
    "sp_model_kwargs",
    "tokenizer_object",
    "vocab",
}
REVIEWED = "only those of the known model families are accepted, /docs/threats/ lists them"


def check_tokenizer_json(content: Component, name: str) -> None:
    """Raise ModelRefused where the tokenizer.json of the model `name` holds what is not reviewed."""
    _check_pipeline(content, name)
    _check_model(content.get("model"), name)
    _check_added_tokens(content.get("added_tokens"), name)


def check_tokenizer_config(content: Component, name: str) -> None:
    """Raise ModelRefused where the tokenizer_config.json of `name` builds a tokenizer of its own."""
    for key in sorted(CONSTRUCTION & content.keys()):
        if content[key]:
            raise _refusal(name, f"gives {key} in tokenizer_config.json", "which its files have to hold: leave it out")
    tokens = content.get("added_tokens_decoder")
    if isinstance(tokens, dict):
        _check_added_tokens(list(tokens.values()), name)


def check_tokenizer(tokenizer: "PreTrainedTokenizerBase", name: str) -> None:
    """Raise ModelRefused where the tokenizer, as it was built, holds what is not reviewed.

    Files other than tokenizer.json (SentencePiece models, vocabularies, GGUF) become a tokenizer by code of
    transformers; so does tokenizer.json, which some classes read in part only. This looks at what came of it.
    """
    if not tokenizer.is_fast:
        kind = type(tokenizer).__name__
        if kind not in PYTHON_TOKENIZERS:
            raise _refusal(name, f"is a {kind}, which runs in Python", "save it as tokenizer.json")
        return
    backend = tokenizer.backend_tokenizer
    steps = ("normalizer", "pre_tokenizer", "post_processor", "decoder")
    parts = {step: getattr(backend, step) for step in steps}
    try:
        _check_pipeline({step: part and json.loads(part.__getstate__()) for step, part in parts.items()}, name)
    except ModelRefused:
        raise
    except Exception as error:  # parts written in Python cannot be described, which raises anything
        raise _refusal(name, "has a part that cannot be described", "save it as tokenizer.json") from error
    if getattr(backend.model, "dropout", None):
        raise _refusal(name, "drops merges at random (dropout)", "set dropout to null")


def _check_pipeline(content: Component, name: str) -> None:
    for normalizer in _components(content.get("normalizer"), "normalizers", name):
        _check_normalizer(normalizer, name)
    for pre_tokenizer in _components(content.get("pre_tokenizer"), "pretokenizers", name):
        _check_pre_tokenizer(pre_tokenizer, name)
    for decoder in _components(content.get("decoder"), "decoders", name):
        _check_decoder(decoder, name)
    for processor in _components(content.get("post_processor"), "processors", name):
        _check_post_processor(processor, name)


def _components(part: object, inner: str, name: str) -> Iterator[Component]:
    """Yield the components of a step, those of sequences one after another."""
    queue, count = [part] if part is not None else [], 0
    while queue:
        component = queue.pop(0)
        count += 1
        if count > MOST_COMPONENTS:
            raise _refusal(name, f"chains more than {MOST_COMPONENTS} {inner}", "shorten the chain")
        if not isinstance(component, dict) or not isinstance(component.get("type"), str):
            raise _refusal(name, f"has {inner} without a type", "save it again")
        if component["type"] == "Sequence":
            parts = component.get(inner)
            if not isinstance(parts, list):
                raise _refusal(name, f"has a Sequence without {inner}", "save it again")
            queue = parts + queue
        else:
            yield component


def _check_normalizer(normalizer: Component, name: str) -> None:
    kind = normalizer["type"]
    if kind in NORMALIZERS:
        return
    if kind == "Replace":
        replacement = (*_pattern(normalizer, name), _text(normalizer, "content"))
        if (
            replacement[0],
            escape_breaks(replacement[1]),
            replacement[2],
        ) in REPLACEMENTS or replacement in REPLACEMENTS:
            return
        raise _refusal(
            name,
            f"replaces {_show(replacement[1])} by {_show(str(replacement[2]))} in every text (normalizer Replace)",
            f"take it out; {REVIEWED}",
        )
    if kind == "Prepend" and _text(normalizer, "prepend") in PREPENDED:
        return
    if kind == "Precompiled":
        check_charsmap(_decode(normalizer.get("precompiled_charsmap"), name), name)
        return
    raise _refusal(name, f"uses the normalizer {kind[:40]!a}", f"take it out; {REVIEWED}")


def _check_pre_tokenizer(pre_tokenizer: Component, name: str) -> None:
    kind = pre_tokenizer["type"]
    if kind in PRE_TOKENIZERS and ("behavior" not in pre_tokenizer or _text(pre_tokenizer, "behavior") in KEEPING):
        return
    if kind == "Metaspace" and pre_tokenizer.get("replacement") == "▁":
        return
    if kind == "CharDelimiterSplit" and pre_tokenizer.get("delimiter") == " ":
        return
    if kind == "Split":
        form, pattern = _pattern(pre_tokenizer, name)
        is_known = pattern in LITERALS if form == "String" else escape_breaks(pattern) in PATTERNS
        if is_known and _text(pre_tokenizer, "behavior") in KEEPING:
            return
        cut_out = pre_tokenizer.get("behavior") == "Removed"
        if cut_out and pre_tokenizer.get("invert") is True and form == "Regex" and pattern in KEPT | PATTERNS:
            return
        raise _refusal(name, f"cuts texts at {_show(pattern)} (pre-tokenizer Split)", f"use another; {REVIEWED}")
    raise _refusal(name, f"uses the pre-tokenizer {kind[:40]!a}", f"use another; {REVIEWED}")


def _check_decoder(decoder: Component, name: str) -> None:
    kind = decoder["type"]
    if (
        kind in DECODERS
        or (kind == "Replace" and (*_pattern(decoder, name), decoder.get("content")) == ("String", "▁", " "))
        or (kind == "Strip" and decoder.get("content") == " ")
        or (kind == "Metaspace" and decoder.get("replacement") == "▁")
        or (kind == "WordPiece" and decoder.get("prefix") in ("##", ""))
        or (kind == "BPEDecoder" and decoder.get("suffix") in ("</w>", ""))
    ):
        return
    raise _refusal(name, f"uses the decoder {kind[:40]!a} in a way of its own", f"use another; {REVIEWED}")


def _check_post_processor(processor: Component, name: str) -> None:
    if processor["type"] not in POST_PROCESSORS:
        raise _refusal(name, f"uses the post-processor {processor['type'][:40]!a}", f"use another; {REVIEWED}")
    for template in (processor.get("single"), processor.get("pair")):
        if isinstance(template, list) and len(template) > MOST_PIECES:
            raise _refusal(name, f"puts {len(template):,} pieces around a text", f"use {MOST_PIECES} at most")


def _check_model(model: object, name: str) -> None:
    if not isinstance(model, dict):
        raise _refusal(name, "has no model in tokenizer.json", "save it again")
    kind = model.get("type", "BPE")  # older files name none
    if not isinstance(kind, str) or kind not in MODELS:
        raise _refusal(name, f"uses the model {str(kind)[:40]!a}", f"use one of {', '.join(sorted(MODELS))}")
    if model.get("dropout"):
        raise _refusal(name, "drops merges at random (dropout)", "set dropout to null")
    vocabulary = model.get("vocab")
    if not isinstance(vocabulary, dict | list) or len(vocabulary) > MOST_VOCABULARY:
        raise _refusal(name, f"has no vocabulary of at most {MOST_VOCABULARY:,} pieces", "save it again")
    ids = vocabulary.values() if isinstance(vocabulary, dict) else ()
    if not all(type(number) is int and 0 <= number < MOST_VOCABULARY for number in ids):
        raise _refusal(name, f"numbers pieces beyond 0 to {MOST_VOCABULARY:,}", "save it again")


def _check_added_tokens(tokens: object, name: str) -> None:
    if tokens is None:
        return
    if not isinstance(tokens, list) or len(tokens) > MOST_ADDED_TOKENS:
        raise _refusal(name, f"has no list of at most {MOST_ADDED_TOKENS:,} added tokens", "save it again")
    for token in tokens:
        content = token.get("content") if isinstance(token, dict) else token
        if not isinstance(content, str) or not content or len(content) > LONGEST_ADDED_TOKEN:
            raise _refusal(
                name, f"adds a token that has not 1 to {LONGEST_ADDED_TOKEN} characters", "leave such tokens out"
            )


def _text(component: Component, key: str) -> str | None:
    """A text of a component; None where there is none, or something else: a list is in no set."""
    text = component.get(key)
    return text if isinstance(text, str) else None


def _pattern(component: Component, name: str) -> tuple[str, str]:
    """The kind of a component's pattern, String or Regex, and the pattern."""
    pattern = component.get("pattern")
    if isinstance(pattern, dict) and len(pattern) == 1:
        ((kind, text),) = pattern.items()
        if kind in ("String", "Regex") and isinstance(text, str):
            return kind, text
    raise _refusal(name, f"has a {component['type'][:40]!a} without a pattern", "save it again")


def _decode(charsmap: object, name: str) -> bytes:
    try:
        return base64.b64decode(str(charsmap), validate=True)
    except ValueError as error:
        raise _refusal(name, "has a precompiled character map that is not base64", "save it again") from error


def _show(text: str) -> str:
    """What can be shown of a pattern: words are left out, for they may be anybody's, offensive ones among them."""
    without_words = re.sub(r"(?<!\\)[^\W\d_]{4,}", "...", text)
    return ascii(without_words if len(without_words) <= 60 else f"{without_words[:60]}...")


def _refusal(name: str, problem: str, remedy: str) -> ModelRefused:
    return ModelRefused(f"the tokenizer of {name} {problem}: {remedy}")
