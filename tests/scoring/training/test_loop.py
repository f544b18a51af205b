"""What is left of a model when its training has ended."""

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedModel

from scoring.training.examples import Examples
from scoring.training.loop import Batch, train
from scoring.training.saving import save_model
from scoring.training.settings import Loop
from tests.scoring.families import tiny


def predict_next(model: PreTrainedModel, batch: Batch, _step: int) -> torch.Tensor:
    return model(**batch).loss


@pytest.mark.slow
def test_a_trained_model_answers_alike_each_time(tmp_path: Path) -> None:
    model = GPT2LMHeadModel(GPT2Config(vocab_size=11, n_positions=8, n_embd=8, n_layer=1, n_head=2))
    rows = [np.arange(8, dtype=np.int64), np.arange(2, 10, dtype=np.int64)]
    loop = Loop(stages=(2,), batch=1, seed=0, peak_rate=1e-3)
    log = train(model, Examples(rows, loop.examples, 0), predict_next, loop, folder=tmp_path, padding=0)
    assert [entry["step"] for entry in log] == [1, 2]
    ids = torch.arange(8)[None]
    with torch.inference_mode():
        assert torch.equal(model(ids).logits, model(ids).logits)  # nothing is dropped out any more


def test_a_saved_model_has_its_name_when_it_is_whole_and_nothing_of_a_draft_before(tmp_path: Path) -> None:
    loaded, folder = tiny("GPT-2"), tmp_path / "model"
    draft = tmp_path / ".model.draft"
    draft.mkdir()
    (draft / "vocab.txt").write_bytes(b"of a run that was ended")
    names: list[set[str]] = []

    def describe(path: Path) -> None:
        assert not folder.exists()
        names.append({file.name for file in path.iterdir()})
        (path / "README.md").write_text("A card")

    save_model(loaded.model, loaded.tokenizer, folder, describe)
    assert {file.name for file in folder.iterdir()} == names[0] | {"README.md"}
    assert {"model.safetensors", "config.json", "tokenizer.json"} <= names[0]
    assert "vocab.txt" not in names[0]
    assert not draft.exists()
