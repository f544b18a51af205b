"""Boards of which models of this project continued prompts: made once, as they run in cages."""

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from leaderboard.models import Metric, Work
from leaderboard.services.language_models import add_bundled, add_model
from scoring.language_models import BUNDLED
from tests.chatting import chat_model
from tests.leaderboard.conftest import CAUSAL, OTHER_CAUSAL, finish
from tests.leaderboard.continuations import import_sample, of_few

METRIC = "toxicity-profanity"


def few_prompts() -> Metric:
    """Profanity of four continuations of each of ten prompts, on a board of nothing else."""
    with TemporaryDirectory() as folder:
        import_sample(Path(folder))
    return of_few(METRIC)


def measure_twins() -> None:
    """Two models, and the first one's weights under another name."""
    metric = few_prompts()
    models = {model.name: model for model in add_bundled()}
    twin, _ = add_model(str(BUNDLED / CAUSAL), name="Twin")
    for model in (models[CAUSAL], models[OTHER_CAUSAL], twin):
        assert finish(model, metric).state == Work.State.DONE


def measure_chats(folder: Path) -> None:
    """Two models that continue raw text, and one that answers in a chat, whose files are put into `folder`."""
    metric = few_prompts()
    models = {model.name: model for model in add_bundled()}
    location = folder / "tuned"
    shutil.rmtree(location, ignore_errors=True)  # of a board of earlier code
    chat, _ = add_model(str(chat_model(location)), interface="chat")
    for model in (models[CAUSAL], models[OTHER_CAUSAL], chat):
        assert finish(model, metric).state == Work.State.DONE
