"""Hub models that must not be taken: what makes each bad, the field that says so, and in which words."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from leaderboard.models import LanguageModel
from leaderboard.services import cages
from leaderboard.submissions.services import hub as service
from scoring.cage import CageLimits
from scoring.language_models import BUNDLED
from scoring.language_models.description import Describe, Description
from tests.leaderboard.conftest import CAUSAL, MASKED
from tests.standin_hub import TOKEN, StandInHub

ID = "someone/small"


@dataclass
class Scene:
    """A hub, the settings of the board, the commit of the good model that the hub has, and a folder to spoil."""

    hub: StandInHub
    settings: Any
    folder: Path
    commit: str = ""

    def spoil(self, change: Callable[[Path], object] = lambda _folder: None, **options: Any) -> None:
        """Upload the model again, with `change` done to its files."""
        change(self.folder)
        self.commit = self.hub.add(ID, self.folder, **options)

    def entered(self, **fields: Any) -> LanguageModel:
        """Put the good model on the board."""
        resolved_model = service.find_candidate(ID, "").resolved
        model, _ = service.language_models.enter(
            resolved_model, "hub", resolved_model.location, resolved_model.location
        )
        LanguageModel.objects.filter(pk=model.pk).update(**fields)
        return model


@dataclass(frozen=True)
class Bad:
    """What is sent, what is done before, and what is answered at which field."""

    words: str
    at: str = "hub_id"
    arrange: Callable[[Scene], object] = lambda _scene: None
    values: dict[str, Any] = field(default_factory=dict)


def config(**changes: Any) -> Callable[[Path], object]:
    """Change config.json."""

    def change(folder: Path) -> None:
        path = folder / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    return change


def rename(before: str, after: str) -> Callable[[Path], object]:
    return lambda folder: (folder / before).rename(folder / after)


def write(name: str, content: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_text(content)


def lie(scene: Scene, **lies: Any) -> None:
    for name, value in lies.items():
        setattr(scene.hub.repositories[ID], name, value)


def tokenizer_code(scene: Scene) -> None:
    path = scene.folder / "tokenizer_config.json"
    scene.spoil(
        lambda _: path.write_text(json.dumps({**json.loads(path.read_text()), "auto_map": {"AutoTokenizer": ["a.B"]}}))
    )


def masked(scene: Scene) -> None:
    scene.hub.add("someone/masked", BUNDLED / MASKED)


def nowhere(scene: Scene) -> None:
    scene.hub.stop()


def impatient(scene: Scene) -> None:
    scene.settings.HUB_PATIENCE_SECONDS, scene.hub.delay = 0.1, 0.4


BAD = {
    # What is written
    "nothing": Bad("Say which model", values={"hub_id": ""}),
    "no id": Bad("'small model!' is not a hub id", values={"hub_id": "small model!"}),
    "a path upwards": Bad("'../../etc/passwd' is not a hub id", values={"hub_id": "../../etc/passwd"}),
    "a path of the machine": Bad("'/etc/hostname' is not a hub id", values={"hub_id": "/etc/hostname"}),
    "a folder of the machine": Bad("leaderboard is not on http", values={"hub_id": "leaderboard"}),
    "dots in an id": Bad("'a..b/c' is not a hub id", values={"hub_id": "a..b/c"}),
    "an id with a query": Bad("is not a hub id", values={"hub_id": "someone/small?token=1"}),
    "an id too long": Bad("has 104 characters", values={"hub_id": "someone/" + 96 * "a"}),
    "an address elsewhere": Bad("not an address of this board's hub", values={"hub_id": "https://evil.example/a/b"}),
    "an address that looks alike": Bad("not an address", values={"hub_id": "https://huggingface.co@evil.example/a/b"}),
    "an address of this machine": Bad("not an address", values={"hub_id": "http://169.254.169.254/latest/meta-data"}),
    "a file address": Bad("not an address", values={"hub_id": "file:///etc/passwd"}),
    "a data set": Bad("is a dataset", values={"hub_id": "https://huggingface.co/datasets/a/b"}),
    "no revision": Bad("'../main' is not a revision", "revision", values={"revision": "../main"}),
    "two revisions": Bad(
        "names revision 'v1' and you gave 'v2'",
        "revision",
        values={"hub_id": f"https://huggingface.co/{ID}/tree/v1", "revision": "v2"},
    ),
    "notes too long": Bad("has 2,001 characters: use 2,000", "notes", values={"notes": 2001 * "a"}),
    "an invisible name": Bad("cannot be seen", "name", values={"name": "GPT\u202e4"}),
    "a family too long": Bad("has 81 characters: use 80", "family", values={"family": 81 * "a"}),
    "a licence that is a formula": Bad("spreadsheet", "licence", values={"licence": "=HYPERLINK(1)"}),
    "a metric of elsewhere": Bad("no metric 'safety-elsewhere'", "metrics", values={"metrics": ["safety-elsewhere"]}),
    "no metric": Bad("Choose at least one metric", "metrics", values={"metrics": []}),
    # What the hub says
    "absent": Bad("nobody/nothing is not on http", values={"hub_id": "nobody/nothing"}),
    "private": Bad("or it is private", arrange=lambda s: s.spoil(private=True)),
    "private to the board's account": Bad(
        "or it is private", arrange=lambda s: (s.spoil(private=True), setattr(s.settings, "HUB_TOKEN", TOKEN))
    ),
    "private to the board's account, at no revision": Bad(
        "or it is private",
        values={"revision": "v9"},
        arrange=lambda s: (s.spoil(private=True), setattr(s.settings, "HUB_TOKEN", TOKEN)),
    ),
    "gated": Bad("is gated: its owner decides", arrange=lambda s: s.spoil(gated=True)),
    "gated for the board's account": Bad(
        "account of its own", arrange=lambda s: (s.spoil(gated=True), setattr(s.settings, "HUB_TOKEN", "hf_outsider"))
    ),
    "no such revision": Bad("has no revision 'v9'", "revision", values={"revision": "v9"}),
    "a hub that is away": Bad("cannot be asked now", arrange=nowhere),
    "a hub that is slow": Bad("cannot be asked now", arrange=impatient),
    "a hub that fails": Bad("cannot be asked now", arrange=lambda s: setattr(s.hub, "status", 503)),
    # What the repository holds
    "pickled": Bad(
        "pickled weights can run code", arrange=lambda s: s.spoil(rename("model.safetensors", "pytorch_model.bin"))
    ),
    "gguf": Bad("only GGUF files", arrange=lambda s: s.spoil(rename("model.safetensors", "model-q4.gguf"))),
    "no weights": Bad("no weights", arrange=lambda s: s.spoil(lambda folder: (folder / "model.safetensors").unlink())),
    "an adapter": Bad("is an adapter", arrange=lambda s: s.spoil(rename("config.json", "adapter_config.json"))),
    "no configuration": Bad("no config.json", arrange=lambda s: s.spoil(rename("config.json", "other.json"))),
    "broken configuration": Bad("is not JSON", arrange=lambda s: s.spoil(write("config.json", "{"))),
    "code of its own": Bad("auto_map in config.json", arrange=lambda s: s.spoil(config(auto_map={"AutoModel": "a.B"}))),
    "a tokenizer with code": Bad("auto_map in tokenizer_config.json", arrange=tokenizer_code),
    "quantised": Bad("is quantised", arrange=lambda s: s.spoil(config(quantization_config={"bits": 4}))),
    "a classifier": Bad(
        "not a language model", arrange=lambda s: s.spoil(config(architectures=["GPT2ForSequenceClassification"]))
    ),
    "an encoder-decoder": Bad(
        "is an encoder-decoder",
        arrange=lambda s: s.spoil(config(architectures=["T5ForConditionalGeneration"], model_type="t5")),
    ),
    "an unknown architecture": Bad(
        "names no architecture", arrange=lambda s: s.spoil(config(model_type="of-my-own", architectures=["Own"]))
    ),
    "an impossible architecture": Bad(
        "and 1 to 1,000 are accepted", arrange=lambda s: s.spoil(config(n_layer=10**6, num_hidden_layers=10**6))
    ),
    # Sizes and hashes
    "huge": Bad("parameters and needs about", arrange=lambda s: s.spoil(config(n_embd=65536, n_head=64, n_layer=2))),
    "huge by what it declares": Bad(
        "more than they can have", arrange=lambda s: lie(s, declared={"model.safetensors": 10**13})
    ),
    "smaller than it can be": Bad(
        "fewer than they can have", arrange=lambda s: lie(s, declared={"model.safetensors": 100})
    ),
    "a configuration that is another": Bad(
        "not what the hub declares",
        arrange=lambda s: lie(
            s, tampered={"config.json": (s.folder / "config.json").read_bytes().replace(b"gelu", b"relu")}
        ),
    ),
    "a configuration without end": Bad("is longer than the", arrange=lambda s: lie(s, endless={"config.json"})),
    "a configuration too long": Bad(
        "at most 2,097,152 are read", arrange=lambda s: lie(s, declared={"config.json": 10**8})
    ),
    # What the board has
    "a metric of continuations for a masked model": Bad(
        "only causal ones do",
        "metrics",
        arrange=masked,
        values={"hub_id": "someone/masked", "metrics": ["toxicity-profanity"]},
    ),
    "a metric without texts": Bad("are not on this board", "metrics", values={"metrics": ["safety-toxigen"]}),
    "a precision that nobody computes in": Bad("is no precision here", "precision", values={"precision": "int3"}),
    "a chat of a model without a template": Bad("has no chat template", "interface", values={"interface": ["chat"]}),
    "withdrawn": Bad("is withdrawn on this board", arrange=lambda s: s.entered(access="withdrawn")),
}


describe_within = cages._describe_within


@cache
def describe_once(limits: CageLimits) -> Describe:
    """A function that describes a model in a cage, which it opens for files that it has not seen yet."""
    descriptions: dict[tuple[object, ...], Description] = {}

    def describe(path: Path, name: str, files: list[str]) -> Description:
        contents = [(file, path.joinpath(file).read_bytes()) for file in files if path.joinpath(file).is_file()]
        key = name, *files, *contents
        if key not in descriptions:
            descriptions[key] = describe_within(limits)(path, name, files)
        return descriptions[key]

    return describe


@contextmanager
def scene(settings: Any, folder: Path) -> Iterator[Scene]:
    """A hub with a good model, and a board that asks it."""
    cages.prepare()  # or the first look-up waits for the libraries, and is given up on a busy machine
    with StandInHub() as hub, pytest.MonkeyPatch.context() as patch:
        patch.setattr(cages, "_describe_within", describe_once)
        settings.HUB_ENDPOINT, settings.HUB_TOKEN = hub.endpoint, None
        for path in (BUNDLED / CAUSAL).iterdir():
            (folder / path.name).write_bytes(path.read_bytes())
        made = Scene(hub, settings, folder)
        made.spoil()
        yield made
