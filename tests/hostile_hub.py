"""Repositories that a hub may hold, each of which attacks whoever loads it; and how each is told to a submitter.

Every case starts from a good model and spoils one thing. Most are refused when they are looked up, the others before
their weights are loaded, or as they are.
"""

import json
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from shutil import copytree
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers

from tests.standin_hub import INFORMATION, Answer, Repository, StandInHub

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
Change = Callable[[Path], object]
Lie = Callable[[Repository], object]
LOOK_UP, LOADING, RUNNING = "look-up", "loading", "running"


@dataclass(frozen=True)
class Case:
    """What is spoilt in the files, and in what the hub answers; when it is refused, and words that the person reads."""

    words: str
    change: Change = lambda _folder: None
    lie: Lie = lambda _repository: None
    stage: str = LOOK_UP

    def upload(self, hub: StandInHub, ref: str, good: Path, scratch: Path) -> str:
        """Put the spoilt model on the hub as `ref`; returns its commit."""
        folder = copytree(good, scratch / ref.replace("/", "--"))
        self.change(folder)
        commit = hub.add(ref, folder)
        self.lie(hub.repositories[ref])
        return commit


# Answers of the hub


def respond(status: int, content: bytes = b"", **headers: str) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(content)

    return answer


def stream(block: bytes, pause: float = 0.0) -> Answer:
    """Never stop sending `block`."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        while True:  # until the client hangs up
            handler.wfile.write(b"%x\r\n%b\r\n" % (len(block), block))
            time.sleep(pause)

    return answer


def trickle(handler: BaseHTTPRequestHandler) -> None:
    """Send headers a byte at a time: no read of the client's ever times out."""
    for byte in b"HTTP/1.1 200 OK\r\nX-Slow: " + b"a" * 10_000:
        handler.wfile.write(bytes([byte]))
        handler.wfile.flush()
        time.sleep(0.05)


def cut_off(handler: BaseHTTPRequestHandler) -> None:
    """Promise more than is sent."""
    handler.send_response(200)
    handler.send_header("Content-Length", "100000")
    handler.end_headers()
    handler.wfile.write(b'{"id": "cut')


def about(**changes: Any) -> Lie:
    """Say of the repository what it is, but for these."""

    def lie(repository: Repository) -> None:
        (commit,) = repository.commits
        files = [{"rfilename": name, "size": len(content)} for name, content in repository.commits[commit].items()]
        whole = {"id": "someone/model", "sha": commit, "siblings": files, "gated": False, **changes}
        repository.answers[INFORMATION] = respond(200, json.dumps(whole).encode())

    return lie


def answering(answer: Answer, what: str = INFORMATION) -> Lie:
    return lambda repository: repository.answers.__setitem__(what, answer)


def sending(name: str, content: bytes) -> Lie:
    return lambda repository: repository.tampered.__setitem__(name, content)


def flipped(name: str) -> Lie:
    """Send the file with its last bit turned."""

    def lie(repository: Repository) -> None:
        (files,) = repository.commits.values()
        repository.tampered[name] = files[name][:-1] + bytes([files[name][-1] ^ 1])

    return lie


AWAY = "cannot be asked now"
ANSWERS = {
    "429 with Retry-After": Case(AWAY, lie=answering(respond(429, Retry_After="600"))),
    "500": Case(AWAY, lie=answering(respond(500))),
    "503 with an endless page": Case(AWAY, lie=answering(respond(503, b"x" * 10**6))),
    "418": Case(AWAY, lie=answering(respond(418))),
    "no JSON": Case(AWAY, lie=answering(respond(200, b"<html>"))),
    "JSON that is no object": Case(AWAY, lie=answering(respond(200, b"[1, 2]"))),
    "JSON that nests for ever": Case(AWAY, lie=answering(respond(200, b"[" * 10**6))),
    "an empty answer": Case(AWAY, lie=answering(respond(200))),
    "a byte now and then": Case(AWAY, lie=answering(stream(b" ", 0.1))),
    "headers a byte at a time": Case(AWAY, lie=answering(trickle)),
    "metadata without end": Case(AWAY, lie=answering(stream(b" " * 2**20))),
    "an answer that is cut off": Case(AWAY, lie=answering(cut_off)),
    "a redirect to itself": Case(AWAY, lie=answering(respond(307, Location="?again"))),
    "a redirect to this network": Case(AWAY, lie=answering(respond(302, Location="https://169.254.169.254/latest"))),
    "a redirect to this machine": Case(AWAY, lie=answering(respond(302, Location="http://127.0.0.1:1/"))),
    "a redirect to a file": Case(AWAY, lie=answering(respond(302, Location="file:///etc/passwd"))),
    "no commit": Case(AWAY, lie=about(sha="main")),
    "a commit that is a path": Case(AWAY, lie=about(sha="../../../etc")),
    "files that are no list": Case(AWAY, lie=about(siblings={"config.json": 1})),
    "files without sizes": Case(
        "does not say how long", lie=about(siblings=[{"rfilename": n} for n in ("config.json", WEIGHTS)])
    ),
    "files that are none": Case("no config.json", lie=about(siblings=[3, None, {"rfilename": 3}])),
    "a configuration that is another": Case("not what the hub declares", lie=flipped("config.json")),
    "a configuration without end": Case("longer than the", lie=lambda r: r.endless.add("config.json")),
    "a configuration of 100 MB": Case("at most 2,097,152", lie=lambda r: r.declared.__setitem__("config.json", 10**8)),
    "weights of 10 TB": Case("more than they can have", lie=lambda r: r.declared.__setitem__(WEIGHTS, 10**13)),
    "weights of another hash": Case("not what the hub declares", lie=flipped(WEIGHTS), stage=LOADING),
    "weights cut short": Case("where the hub declares", lie=sending(WEIGHTS, b"\0" * 100), stage=LOADING),
    "weights without end": Case("longer than the", lie=lambda r: r.endless.add(WEIGHTS), stage=LOADING),
    "a tokenizer that is another": Case("not what the hub declares", lie=flipped("tokenizer.json"), stage=LOADING),
}


# Files of the repository


def edit(name: str, **changes: Any) -> Change:
    def change(folder: Path) -> None:
        path = folder / name
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    return change


def config(**changes: Any) -> Change:
    return edit("config.json", **changes)


def write(name: str, content: str | bytes) -> Change:
    return lambda folder: (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)


def accepted(low: str, high: str) -> str:
    return f"and {low} to {high} are accepted"


CONFIGURATIONS = {
    "20 million labels": Case("num_labels = 20,000,000", config(num_labels=20_000_000)),
    "10 thousand named labels and one": Case(
        "labels in id2label", config(id2label={str(n): "x" for n in range(10_001)})
    ),
    "nesting": Case("nests deeper", write("config.json", "[" * 100_000)),
    "objects in objects": Case("nests deeper", write("config.json", '{"a":' * 100_000)),
    "lists in lists": Case("nests deeper", config(deep=json.loads("[" * 60 + "]" * 60))),
    "values without end": Case("values", write("config.json", '{"a": [' + "0," * 200_000 + "0]}")),
    "no JSON": Case("is not JSON", write("config.json", "{")),
    "no UTF-8": Case("is not JSON", write("config.json", b'{"a": "\xff"}')),
    "a key twice": Case("a key is repeated", write("config.json", '{"model_type": "gpt2", "model_type": "bert"}')),
    "a list": Case("not a JSON object", write("config.json", "[]")),
    "a number of 5,000 digits": Case("is not JSON", write("config.json", '{"n_embd": ' + "9" * 5000 + "}")),
    "NaN": Case("is no finite number", config(layer_norm_epsilon=float("nan"))),
    "infinity": Case("is no finite number", config(initializer_range=float("inf"))),
    "negative heads": Case("n_head = -2", config(n_head=-2)),
    "no layers": Case(accepted("1", "1,000"), config(n_layer=0)),
    "a million layers": Case(accepted("1", "1,000"), config(n_layer=10**6)),
    "no width": Case("n_embd = 0", config(n_embd=0)),
    "a width that is a word": Case("n_embd", config(n_embd="wide")),
    "a width that is true": Case("n_embd", config(n_embd=True)),
    "a vocabulary of a billion": Case("vocab_size = 1,000,000,000", config(vocab_size=10**9)),
    "positions without end": Case("n_positions", config(n_positions=10**12)),
    "experts without end": Case("num_experts", config(num_experts=10**9)),
    "half a surrogate pair": Case("half a surrogate pair", write("config.json", '{"model_type": "\\ud800"}')),
    "an architecture of its own": Case("names no architecture", config(model_type="of-my-own", architectures=["Own"])),
    "code of its own": Case("auto_map in config.json", config(auto_map={"AutoModel": "a.B"})),
    "quantised": Case("is quantised", config(quantization_config={"bits": 4})),
    "architectures that are a word": Case("are no list", config(architectures="GPT2LMHeadModel")),
}


def backend(change: Callable[[Tokenizer], object]) -> Change:
    """Change the parts of the tokenizer."""

    def apply(folder: Path) -> None:
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        change(tokenizer)
        tokenizer.save(str(folder / "tokenizer.json"))

    return apply


def normalizer(*parts: Any) -> Change:
    return backend(lambda tokenizer: setattr(tokenizer, "normalizer", normalizers.Sequence(list(parts))))


def cutting(part: Any) -> Change:
    return backend(lambda tokenizer: setattr(tokenizer, "pre_tokenizer", part))


BOMB = [normalizers.Replace("e", 1000 * "e")] * 4
TOKENIZERS = {
    "a bomb of replacements": Case("normalizer Replace", normalizer(*BOMB), stage=LOADING),
    "known sentences rewritten": Case(
        "normalizer Replace", normalizer(normalizers.Replace("people from A are", "zq zq")), stage=LOADING
    ),
    "everything replaced": Case("normalizer Replace", normalizer(normalizers.Replace(Regex(".*"), "a")), stage=LOADING),
    "a word before every text": Case("'Prepend'", normalizer(normalizers.Prepend("kind ")), stage=LOADING),
    "a pattern that takes for ever": Case(
        "pre-tokenizer Split", cutting(pre_tokenizers.Split(Regex("(a+)+$"), "isolated")), stage=LOADING
    ),
    "words cut out": Case("pre-tokenizer Split", cutting(pre_tokenizers.Split("not", "removed")), stage=LOADING),
    "letters cut out": Case("CharDelimiterSplit", cutting(pre_tokenizers.CharDelimiterSplit("e")), stage=LOADING),
    "no JSON": Case("is not JSON", write("tokenizer.json", "{"), stage=LOADING),
    "no model": Case("no model in tokenizer.json", write("tokenizer.json", "{}"), stage=LOADING),
    "values without end": Case(
        "values", write("tokenizer.json", b'{"a": [' + b"0," * 8_000_001 + b"0]}"), stage=LOADING
    ),
    "code of its own": Case(
        "auto_map in tokenizer_config.json", edit("tokenizer_config.json", auto_map={"AutoTokenizer": ["a.B", None]})
    ),
    "a vocabulary in its settings": Case("gives vocab", edit("tokenizer_config.json", vocab={"a": 0})),
    "merges dropped at random": Case(
        "dropout", backend(lambda tokenizer: setattr(tokenizer.model, "dropout", 0.5)), stage=LOADING
    ),
}


def header(content: Any) -> Change:
    """Weights of this header and eight bytes of data."""
    text = content if isinstance(content, bytes) else json.dumps(content).encode()
    return write(WEIGHTS, struct.pack("<Q", len(text)) + text + bytes(8))


def padded(change: Change) -> Change:
    """`change`, and the weights as long as they were: looking them up tells no difference."""

    def apply(folder: Path) -> None:
        size = (folder / WEIGHTS).stat().st_size
        change(folder)
        content = (folder / WEIGHTS).read_bytes()
        (folder / WEIGHTS).write_bytes(content + bytes(max(0, size - len(content))))

    return apply


def index(places: Any, **others: Any) -> Change:
    """An index, and two shards in place of the weights."""

    def apply(folder: Path) -> None:
        tensors = load_file(folder / WEIGHTS)
        names = sorted(tensors)
        shards = {"a-00001.safetensors": names[::2], "a-00002.safetensors": names[1::2]}
        for file, chosen in shards.items():
            save_file({name: tensors[name] for name in chosen}, folder / file, {"format": "pt"})
        (folder / WEIGHTS).unlink()
        (folder / "weights.txt").write_bytes(b"\x80\x04 a pickle")
        true = {name: file for file, chosen in shards.items() for name in chosen}
        whole = {**true, **places} if isinstance(places, dict) else places
        (folder / INDEX).write_text(json.dumps({"weight_map": whole, **others}))

    return apply


ONLY_SHARDS = "only .safetensors files beside it are read"
TENSOR = {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}
HEADERS = {
    "a header longer than the file": Case(
        "its header claims", padded(write(WEIGHTS, struct.pack("<Q", 2**60) + b"{}")), stage=LOADING
    ),
    "a header that nests": Case("nests deeper", padded(header(b"[" * 100_000)), stage=LOADING),
    "a header that is no JSON": Case("is not JSON", padded(header(b"{]")), stage=LOADING),
    "tensors over each other": Case("overlap", padded(header({**TENSOR, "b": TENSOR["a"]})), stage=LOADING),
    "a type that is none": Case(
        "none of weights", padded(header({"a": {**TENSOR["a"], "dtype": "F4"}})), stage=LOADING
    ),
    "a shape below zero": Case("no shape", padded(header({"a": {**TENSOR["a"], "shape": [-2]}})), stage=LOADING),
    "a shape beyond its data": Case(
        "another length", padded(header({"a": {**TENSOR["a"], "shape": [2**40]}})), stage=LOADING
    ),
    "bytes after the tensors": Case("its tensors end at byte", padded(header(TENSOR)), stage=LOADING),
    "pickled weights by an index": Case(ONLY_SHARDS, index({"lm_head.weight": "weights.txt"})),
    "a file of the machine by an index": Case(ONLY_SHARDS, index({"lm_head.weight": "../../../etc/passwd"})),
    "a shard that is not there": Case("which the model does not have", index({"x": "a-00003.safetensors"})),
    "an index that is none": Case("no weight_map", index([])),
    "a tensor that its shard lacks": Case(
        "into files that lack them", index({"x": "a-00001.safetensors"}), stage=LOADING
    ),
}


def weights(change: Callable[[dict[str, torch.Tensor]], object]) -> Change:
    def apply(folder: Path) -> None:
        tensors = load_file(folder / WEIGHTS)
        change(tensors)
        save_file(tensors, folder / WEIGHTS, {"format": "pt"})

    return apply


def without_a_layer(tensors: dict[str, torch.Tensor]) -> None:
    for name in [name for name in tensors if ".h.1." in name]:
        del tensors[name]


def filled(value: float, part: str = "") -> Change:
    """Every number of the tensors whose names hold `part` is `value`."""

    def change(tensors: dict[str, torch.Tensor]) -> None:
        chosen = {name: tensor.float() for name, tensor in tensors.items() if part in name}
        tensors.update({name: torch.full_like(tensor, value) for name, tensor in chosen.items()})

    return weights(change)


NOTHING_FINITE = "gives no finite likelihood for"
WEIGHTS_OF = {
    "NaN": Case(NOTHING_FINITE, filled(float("nan")), stage=RUNNING),
    "NaN in one layer": Case(NOTHING_FINITE, filled(float("nan"), ".h.1.mlp"), stage=RUNNING),
    "infinite": Case(NOTHING_FINITE, filled(float("inf"), "wte"), stage=RUNNING),
    "huge numbers": Case(NOTHING_FINITE, filled(3e38), stage=RUNNING),
    "parameters missing": Case("the weights lack", weights(without_a_layer), stage=LOADING),
    "parameters of another shape": Case(
        "the weights lack",
        weights(lambda tensors: tensors.update({"transformer.ln_f.bias": torch.zeros(7)})),
        stage=LOADING,
    ),
    "parameters too many": Case(
        "more than they can have", weights(lambda tensors: tensors.update(spare=torch.zeros(4_000_000)))
    ),
    "parameters too many, in few bytes": Case(
        "take out what is not this model's",
        weights(lambda tensors: tensors.update(spare=torch.zeros(4_000_000, dtype=torch.bool))),
        stage=LOADING,
    ),
    "pickled": Case(
        "pickled weights can run code", lambda folder: (folder / WEIGHTS).rename(folder / "pytorch_model.bin")
    ),
    "another name": Case("save_pretrained", lambda folder: (folder / WEIGHTS).rename(folder / "weights.safetensors")),
}
GROUPS = {
    "answers": ANSWERS,
    "configurations": CONFIGURATIONS,
    "tokenizers": TOKENIZERS,
    "headers": HEADERS,
    "weights": WEIGHTS_OF,
}
CASES = {f"{group}: {name}": case for group, cases in GROUPS.items() for name, case in cases.items()}


# GGUF files are no models of the hub: operators enter them from their own machine.


def text(words: str) -> bytes:
    return struct.pack("<Q", len(words)) + words.encode()


def gguf(
    *metadata: bytes,
    tensors: int = 0,
    claimed: int | None = None,
    version: int = 3,
    rest: bytes = b"",
    magic: bytes = b"GGUF",
) -> bytes:
    """A GGUF file that holds `metadata`; `claimed`: how many it says they are."""
    count = len(metadata) if claimed is None else claimed
    return magic + struct.pack("<IQQ", version, tensors, count) + b"".join(metadata) + rest


def number(key: str, value: int) -> bytes:
    return text(key) + struct.pack("<Iq", 11, value)


def array(kind: int, count: int, content: bytes = b"") -> bytes:
    return text("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, kind, count) + content


ARCHITECTURE = text("general.architecture") + struct.pack("<I", 8) + text("llama")
GGUF = {
    "no magic": ("does not begin with GGUF", gguf(magic=b"GGML")),
    "a version to come": ("version 9 of the format", gguf(version=9)),
    "metadata without end": ("claims 1,099,511,627,776 metadata", gguf(claimed=2**40)),
    "tensors without end": ("claims 1,099,511,627,776 tensors", gguf(ARCHITECTURE, tensors=2**40)),
    "a text without end": ("bytes of a text", gguf(struct.pack("<Q", 2**60), claimed=1)),
    "an array without end": ("items of an array", gguf(ARCHITECTURE, array(8, 2**40))),
    "arrays in arrays": ("array of type 9", gguf(ARCHITECTURE, array(9, 1))),
    "a value of no type": ("value of type 77", gguf(text("general.name") + struct.pack("<I", 77))),
    "a key twice": ("twice", gguf(ARCHITECTURE, ARCHITECTURE)),
    "layers without end": ("llama.block_count", gguf(ARCHITECTURE, number("llama.block_count", 10**9))),
    "negative heads": ("head_count", gguf(ARCHITECTURE, number("llama.attention.head_count", -4))),
    "a tensor beyond the file": (
        "reach beyond its end",
        gguf(ARCHITECTURE, tensors=1, rest=text("a") + struct.pack("<IQIQ", 1, 2**30, 0, 0)),
    ),
    "a tensor cut by a byte": (
        "reach beyond its end",
        gguf(ARCHITECTURE, tensors=1, rest=text("a") + struct.pack("<IQIQ", 1, 8, 0, 0)).ljust(128, b"\0") + bytes(31),
    ),
    "a tensor of no type": (
        "has type 999",
        gguf(ARCHITECTURE, tensors=1, rest=text("a") + struct.pack("<IQIQ", 1, 32, 999, 0)),
    ),
    "an end in the header": ("ends within its header", gguf(ARCHITECTURE, claimed=2)),
}
