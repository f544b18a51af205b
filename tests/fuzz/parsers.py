"""The parsers of what strangers send, each with the seeds that its inputs are made of."""

import io
import json
import shutil
import struct
import tempfile
import zipfile
from functools import partial
from pathlib import Path
from typing import Any

from scoring.contributed import ContributionRefused, Limits, read_generations, read_likelihoods
from scoring.contributed.report import Problems
from scoring.contributed.tools import read_log, results_of
from scoring.contributed.tools.archives import Archive
from scoring.evaluation_sets.label_files import read_label_rows
from scoring.language_models import BUNDLED
from scoring.language_models.bounded_json import parse_json
from scoring.language_models.configuration import check_numbers, refuse_code
from scoring.language_models.gguf_header import read_gguf_header
from scoring.language_models.quantisation import find_quantisation
from scoring.language_models.refusals import ModelRefused
from scoring.language_models.tokenizer_rules import check_tokenizer_config, check_tokenizer_json
from scoring.language_models.weights import INDEX, read_header, read_index
from scoring.refusals import Refused
from scoring.score_files import UnreadableScores, read_odds_ratios, read_pair_scores
from scoring.scorers import LexiconError
from scoring.scorers.lexicon import read_lexicon
from scoring.text_files import UnreadableTexts, read_texts
from tests import hostile_hub
from tests.fuzz import boards
from tests.fuzz.campaign import Parser
from tests.fuzz.mutation import (
    spoil_bytes,
    spoil_header,
    spoil_json,
    spoil_lines,
    spoil_query,
    spoil_table,
    spoil_zip,
)
from tests.scoring.contributed.files import valid_rows, written
from tests.scoring.contributed.prompts import PROMPTS, K

LOGS = Path(__file__).parents[1] / "scoring" / "contributed" / "logs"
MODEL = BUNDLED / "plumb-gpt2-l2-h128"
MOST_BYTES = 2**20
Seeds = list[tuple[str, bytes]]
LABELLED = (
    '{"id": "a", "text": "the sea", "label": "benign", "groups": ["women"], "language": "en"}\n'
    '{"id": "b", "text": "the lake", "label": "harmful", "groups": "men;women", "paraphrase_of": "a"}\n'
)


def log_seeds(*patterns: str) -> Seeds:
    """Logs that the tools themselves wrote."""
    return [(path.suffix, path.read_bytes()) for pattern in patterns for path in sorted(LOGS.glob(pattern))]


def likelihood_rows() -> list[dict[str, object]]:
    """Likelihoods of each prompt."""
    return [{"id": prompt.id, "token_log_likelihoods": [-1.5, -0.25, -3.0]} for prompt in PROMPTS]


def upload_seeds(*endings: str) -> Seeds:
    """Valid uploads of continuations and likelihoods in some formats."""
    return [
        (ending, written(rows, f"outputs{ending}")) for ending in endings for rows in (valid_rows(), likelihood_rows())
    ]


def read_upload(path: Path) -> None:
    """Read a file as continuations, else as likelihoods."""
    with path.open("rb") as file:
        head = file.read(4096)
        file.seek(0)
        if b"token_log_likelihoods" in head or (path.suffix == ".parquet" and b"token_log_l" in path.read_bytes()):
            read_likelihoods(file, path.name, PROMPTS)
        else:
            read_generations(file, path.name, PROMPTS, K)


def read_tool_log(path: Path) -> None:
    """Read a log of a tool."""
    name = "samples_x_2026.jsonl" if path.suffix == ".jsonl" else path.name
    with path.open("rb") as file:
        read_log(file, name, PROMPTS, K)


def read_tool_results(path: Path) -> None:
    """Read the results that lm-evaluation-harness writes beside its samples."""
    with path.open("rb") as file:
        results_of(file)


def read_own_json(path: Path) -> None:
    """Read a model's configuration as far as it is read before transformers gets it, and both files of a tokenizer."""
    content = parse_json(path.read_bytes(), path.name, "org/model", 100_000)
    refuse_code("org/model", path.name, content)
    find_quantisation(content, "org/model")
    check_numbers(content, path.name, "org/model")


def read_tokenizer(path: Path) -> None:
    """Check tokenizer.json and tokenizer_config.json."""
    content = parse_json(path.read_bytes(), "tokenizer.json", "org/model", 8_000_000)
    check_tokenizer_json(content, "org/model")
    check_tokenizer_config(content, "org/model")


def short_tokenizer() -> dict[str, Any]:
    """The tokenizer of a bundled model with a short vocabulary."""
    content: dict[str, Any] = json.loads((MODEL / "tokenizer.json").read_bytes())
    model = content["model"]
    model["merges"] = model["merges"][:5]
    merged = {part for pair in model["merges"] for part in (*pair, "".join(pair))}
    model["vocab"] = {token: number for token, number in model["vocab"].items() if number < 40 or token in merged}
    return content


def small_weights() -> bytes:
    """A file of three small tensors."""
    header = {
        "__metadata__": {"format": "pt"},
        "a": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]},
        "b": {"dtype": "BF16", "shape": [4], "data_offsets": [16, 24]},
        "c": {"dtype": "I8", "shape": [], "data_offsets": [24, 25]},
    }
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(25)


def hostile_seeds(cases: dict[str, hostile_hub.Case], *names: str) -> Seeds:
    """The files of these names that each of these repositories spoils; none of megabytes, which take long to spoil."""
    contents = []
    with tempfile.TemporaryDirectory() as scratch:
        good = shutil.copytree(MODEL, Path(scratch, "good"), ignore=shutil.ignore_patterns("*.safetensors"))
        (good / hostile_hub.WEIGHTS).write_bytes(small_weights())
        (good / "tokenizer.json").write_text(json.dumps(short_tokenizer()), encoding="utf-8")
        good_contents = {path.read_bytes() for path in good.iterdir()}
        for number, case in enumerate(cases.values()):
            folder = shutil.copytree(good, Path(scratch, str(number)))
            case.change(folder)
            contents += [(path.suffix, path.read_bytes()) for path in sorted(folder.iterdir()) if path.name in names]
    return [seed for seed in contents if seed[1] not in good_contents and len(seed[1]) < MOST_BYTES]


def tokenizer_seeds() -> Seeds:
    """A tokenizer, parts that are reviewed one by one, and the hostile tokenizers."""
    content = short_tokenizer()
    variants = [
        content,
        content | {"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Lowercase"}]}},
        content | {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAAAA=="}},
        content | {"normalizer": {"type": "Replace", "pattern": {"Regex": "a+"}, "content": "b"}},
        content | {"pre_tokenizer": {"type": "Whitespace"}},
        content | {"added_tokens_decoder": {"0": {"content": "<s>", "special": True}}},
    ]
    hostile = hostile_seeds(hostile_hub.TOKENIZERS, "tokenizer.json", "tokenizer_config.json")
    return [*((".json", json.dumps(variant).encode()) for variant in variants), *hostile]


def safetensors_seeds() -> Seeds:
    """A whole file, and the hostile ones."""
    return [(".safetensors", small_weights()), *hostile_seeds(hostile_hub.HEADERS, hostile_hub.WEIGHTS)]


def read_weights_index(path: Path) -> None:
    """Read which shard holds which tensor."""
    target = path.with_name(INDEX)
    path.replace(target)
    read_index(target.parent, "org/model", ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"])


def index_seeds() -> Seeds:
    """An index of two shards, and the hostile ones."""
    places = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    whole = json.dumps({"metadata": {"total_size": 64}, "weight_map": places}).encode()
    return [(".json", whole), *hostile_seeds(hostile_hub.HEADERS, INDEX)]


def gguf_seeds() -> Seeds:
    """The hostile GGUF files, and a whole one."""
    tensor = hostile_hub.text("a") + struct.pack("<IQIQ", 1, 8, 0, 0)
    rest = tensor + bytes(64)
    whole = hostile_hub.gguf(hostile_hub.ARCHITECTURE, hostile_hub.number("llama.block_count", 2), tensors=1, rest=rest)
    array = hostile_hub.gguf(hostile_hub.ARCHITECTURE, hostile_hub.array(4, 3, bytes(12)))
    return [(".gguf", content) for content in (whole, array, *(content for _, content in hostile_hub.GGUF.values()))]


def config_seeds() -> Seeds:
    """The configurations of the bundled models, one with quantised weights, and the hostile ones."""
    contents = [json.loads(path.read_bytes()) for path in sorted(BUNDLED.glob("*/config.json"))[:6]]
    quantised = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}
    contents.append(contents[0] | {"quantization_config": quantised, "num_experts": 8})
    whole = [(".json", json.dumps(content).encode()) for content in contents]
    return [*whole, *hostile_seeds(hostile_hub.CONFIGURATIONS, "config.json")]


def labelled_seeds() -> Seeds:
    """Labelled texts in three formats."""
    rows = [json.loads(line) for line in LABELLED.splitlines()]
    plain_rows = [row | {"groups": "women"} for row in rows]
    return [
        (".jsonl", LABELLED.encode()),
        (".csv", b"id,text,label,groups\na,the sea,benign,women\nb,the lake,harmful,\n"),
        (".parquet", written(plain_rows, "labelled.parquet")),
    ]


def spoil_labelled(content: bytes, draw) -> bytes:
    """Spoil labelled texts by their format."""
    if content.startswith(b"PAR1"):
        return spoil_bytes(content, draw)
    return (spoil_lines if content.startswith(b"{") else spoil_table)(content, draw)


def read_text_file(path: Path) -> None:
    """Read the texts of a file."""
    for _ in read_texts(path):
        pass


def read_scores(path: Path) -> None:
    """Read odds of pronouns, or scores of sentence pairs."""
    if b"odds" in path.read_bytes()[:200]:
        read_odds_ratios(path)
    else:
        read_pair_scores(path)


def score_seeds() -> Seeds:
    """A table of CrowS-Pairs' code, and odds in two formats."""
    return [
        (".csv", b"sent1,sent2,sent1_score,sent2_score,score,stereo_antistereo,bias_type\na,b,-1.5,-2,0,stereo,age\n"),
        (".csv", b"odds_base,odds_alt,slice\n0.5,1.5,a\n2,0.25,b\n"),
        (".json", b'[{"odds_base": 0.5, "odds_alt": 1.5, "slice": "a"}]'),
    ]


def spoil_mixed(content: bytes, draw) -> bytes:
    """Spoil JSON or CSV by what it begins with."""
    if content[:1] == b"{" and b"\n{" in content:
        return spoil_lines(content, draw)
    return (spoil_json if content[:1] in (b"{", b"[") else spoil_table)(content, draw)


def spoil_log(content: bytes, draw) -> bytes:
    """Spoil a log of Inspect, in JSON or a zip file."""
    return (spoil_zip if content.startswith(b"PK") else spoil_json)(content, draw)


def read_word_list(path: Path) -> None:
    """Read a lexicon of one file."""
    folder = path.parent / "lexicon"
    folder.mkdir(exist_ok=True)
    path.replace(folder / "words.txt")
    read_lexicon(folder)


def lexicon_seeds() -> Seeds:
    """A list of words with a comment, a beginning and two words."""
    return [(".txt", b"# licence\nrain\nsea*\nthe lake\n")]


def inspect_seeds() -> Seeds:
    """Logs that Inspect wrote, and one of them in a zip file of another compression, whose members can be spoilt."""
    seeds, buffer = log_seeds("inspect.*"), io.BytesIO()
    with (LOGS / "inspect.eval").open("rb") as file, zipfile.ZipFile(buffer, "w") as copy:
        archive = Archive(file, Problems(Limits()))
        for name in archive:
            copy.writestr(name, archive.read(name))
    return [*seeds, (".eval", buffer.getvalue())]


def samples_in_zip() -> bytes:
    """Samples and results of lm-evaluation-harness in one zip file."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path in (*LOGS.glob("samples_*"), *LOGS.glob("results_*")):
            archive.writestr(path.name, path.read_bytes())
    return buffer.getvalue()


def spoil_harness(content: bytes, draw) -> bytes:
    """Spoil samples, in lines or a zip file."""
    return (spoil_zip if content.startswith(b"PK") else spoil_lines)(content, draw)


OUTPUTS, MODELS = (ContributionRefused,), (ModelRefused,)
PARSERS = {
    parser.name: parser
    for parser in (
        Parser("json-lines", read_upload, OUTPUTS, partial(upload_seeds, ".jsonl"), spoil_lines),
        Parser("csv", read_upload, OUTPUTS, partial(upload_seeds, ".csv"), spoil_table),
        Parser("parquet", read_upload, OUTPUTS, partial(upload_seeds, ".parquet"), spoil_bytes),
        Parser(
            "harness",
            read_tool_log,
            OUTPUTS,
            lambda: [*log_seeds("samples_*"), (".zip", samples_in_zip())],
            spoil_harness,
        ),
        Parser("harness-results", read_tool_results, OUTPUTS, partial(log_seeds, "results_*"), spoil_json),
        Parser("helm", read_tool_log, OUTPUTS, partial(log_seeds, "scenario_state.json"), spoil_json),
        Parser("inspect", read_tool_log, OUTPUTS, inspect_seeds, spoil_log),
        Parser("configuration", read_own_json, MODELS, config_seeds, spoil_json),
        Parser("tokenizer", read_tokenizer, MODELS, tokenizer_seeds, spoil_json),
        Parser("safetensors", lambda path: read_header(path, "org/model"), MODELS, safetensors_seeds, spoil_header),
        Parser("index", read_weights_index, MODELS, index_seeds, spoil_json),
        Parser("gguf", read_gguf_header, MODELS, gguf_seeds, spoil_bytes),
        Parser("package", boards.read_board_package, (Refused,), boards.package_seeds, boards.spoil_package),
        Parser("labelled-texts", read_label_rows, (Refused,), labelled_seeds, spoil_labelled),
        Parser(
            "texts",
            read_text_file,
            (UnreadableTexts,),
            lambda: [(".jsonl", b'{"text": "the sea"}\n'), (".json", b'[{"text": "the sea"}]'), (".txt", b"the sea\n")],
            spoil_mixed,
        ),
        Parser("scores", read_scores, (UnreadableScores,), score_seeds, spoil_mixed),
        Parser(
            "lexicon",
            read_word_list,
            (LexiconError,),
            lexicon_seeds,
            spoil_bytes,
        ),
        Parser("query", boards.read_query, boards.NOT_FOUND, boards.query_seeds, spoil_query, boards.prepare_board),
    )
}
