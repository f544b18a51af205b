"""Memory and time of five sizes of models in each precision, against what the board estimates of them.

Each model is loaded and run in a process of its own. Memory is beyond what the libraries take: the most that no file
backs, or all that is there at the end where that is more, as weights that are used as stored are read in place.

    python -m tests.bench.memory FOLDER PRECISION TEXTS     # one model, measured in this process, as JSON
"""

import gc
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import django
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from scoring.language_models import BUNDLED
from scoring.language_models.loading import load_files
from scoring.language_models.precision import BYTES_A_NUMBER
from tests.bench.likelihood import loaded, ours, sentences
from tests.bench.timing import describe_rates, rates_by_precision

TOKENIZER = "plumb-gpt2-l4-h256"
# Layers, hidden size and the texts that are scored; 1,000 take as many times longer.
SIZES = ((4, 384, 256), (8, 512, 128), (12, 768, 64), (16, 1024, 32), (20, 1152, 16))
PER = 1000  # texts
MOMENT = 0.002  # seconds between two looks at the memory


def memory_table() -> None:
    """Print, for each size and precision, what was measured and what is estimated."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "leaderboard.settings")
    django.setup()  # which the site's estimates need: they stand on its models
    from leaderboard.services.memory import LIBRARIES, memory_needed, seconds_estimated

    print(f"matrix product on {torch.get_num_threads()} threads: {describe_rates(rates_by_precision())}")
    print(f"{'parameters, precision':24}{'memory':>12}{'estimated':>12}{'seconds per 1,000':>20}{'estimated':>12}")
    for layers, hidden, count in SIZES:
        with TemporaryDirectory() as folder:
            parameters = save_untrained(Path(folder), layers, hidden)
            for precision in BYTES_A_NUMBER:
                texts = count // 4 if precision == "float16" else count  # which processors are slow in
                words = [sys.executable, "-m", "tests.bench.memory", folder, precision, str(texts)]
                answer = subprocess.run(words, check=True, capture_output=True, text=True)
                figures = json.loads(answer.stdout.splitlines()[-1])
                memory = (memory_needed(parameters, precision) - LIBRARIES) / 1e6
                title = f"{parameters / 1e6:,.0f}M, {precision}"
                print(
                    f"{title:24}{figures['memory'] / 1e6:>9,.0f} MB{memory:>9,.0f} MB"
                    f"{figures['seconds']:>18,.1f} s{seconds_estimated(parameters, PER, precision):>10,.1f} s",
                    flush=True,
                )


def save_untrained(folder: Path, layers: int, hidden: int) -> int:
    """Save a model of Llama's layout with random weights in bfloat16; returns its parameters."""
    tokenizer = loaded(BUNDLED / TOKENIZER).tokenizer
    tokenizer.save_pretrained(folder)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=hidden // 64,
        intermediate_size=4 * hidden,
        max_position_embeddings=1024,
    )
    model = LlamaForCausalLM(config).to(torch.bfloat16)
    model.save_pretrained(folder)
    return sum(part.numel() for part in model.parameters())


def own_memory(kind: str = "RssAnon") -> int:
    """Bytes of this process in memory: those that no file backs, or of another kind that Linux counts."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(kind))
    return int(line.split()[1]) * 1024


def measure(folder: Path, precision: str, count: int) -> dict[str, float]:
    """The most memory that loading the model and scoring texts takes, and the seconds for 1,000 texts."""
    texts = sentences(count)
    ours(loaded(BUNDLED / TOKENIZER), texts[:4])  # what libraries take once
    gc.collect()
    base, whole, peaks, over = own_memory(), own_memory("VmRSS"), [0], threading.Event()

    def watch() -> None:
        while not over.wait(MOMENT):
            peaks[0] = max(peaks[0], own_memory())

    watcher = threading.Thread(target=watch)
    watcher.start()
    model = load_files(folder, "a model", precision=precision)
    ours(model, texts[:8])
    began = time.perf_counter()
    ours(model, texts)
    duration = time.perf_counter() - began
    over.set()
    watcher.join()
    memory = max(peaks[0] - base, own_memory("VmRSS") - whole)
    return {"libraries": whole, "memory": memory, "seconds": duration * PER / count}


if __name__ == "__main__":
    print(json.dumps(measure(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))))
