"""Classifiers that are declared by their hub id: ToxiGen's, and multilingual ones."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from scoring.attributes import Attribute, Meaning
from scoring.scorers import ScorerUnavailable, UndeclaredLabel, declaration_of, get_scorer
from scoring.scorers.classifier_scorers import read_classifiers
from scoring.scorers.conversion import convert_classifier
from tests.standin_hub import StandInHub
from tests.tiny_classifiers import bert, save_classifier, tokenizer

CPU = torch.device("cpu")
ENTRIES = {entry["hub_id"]: entry for entry in read_classifiers()}
HATEBERT = "tomh/toxigen_hatebert"


def labels_of(hub_id: str) -> dict[int, str]:
    """The labels of a declared classifier, as its config.json names them."""
    return dict(enumerate(ENTRIES[hub_id]["labels"]))


@pytest.mark.parametrize("hub_id", ENTRIES)
def test_a_known_classifier_needs_no_declaration_of_its_labels(tmp_path, hub_id):
    folder = save_classifier(tmp_path, id2label=labels_of(hub_id))
    scorer = get_scorer(f"classifier:{hub_id}", folder=folder, device=CPU)
    expected = tuple(Attribute(label, Meaning(meaning)) for label, meaning in ENTRIES[hub_id]["labels"].items())
    assert scorer.attributes == expected
    assert [attribute.meaning for attribute in expected] == [Meaning.NEUTRAL, Meaning.HARM]
    assert scorer.score(["the"]).reasons == (None,)


@pytest.mark.parametrize("hub_id", ENTRIES)
def test_a_known_classifier_says_its_languages_its_licence_and_what_its_scores_do_not_tell(hub_id):
    declaration, entry = declaration_of(f"classifier:{hub_id}"), ENTRIES[hub_id]
    assert declaration.title == entry["title"]
    assert declaration.limits[:-1] == tuple(entry["limits"])
    assert declaration.limits[-1] == f"Languages: {', '.join(entry['languages'])}. Licence: {entry['licence']}."
    assert entry["source"].startswith("https://")


def test_several_known_classifiers_read_other_languages_than_english():
    assert sum(len(entry["languages"]) >= 9 for entry in ENTRIES.values()) >= 2


def test_files_with_other_labels_are_refused_and_an_operators_word_goes_first(tmp_path):
    folder = save_classifier(tmp_path, id2label={0: "benign", 1: "toxic"})
    with pytest.raises(UndeclaredLabel, match="'LABEL_0' is declared and does not stand"):
        get_scorer("classifier:tomh/toxigen_roberta", folder=folder)
    folder = save_classifier(tmp_path, id2label=labels_of("tomh/toxigen_roberta"))
    swapped = {"LABEL_0": Meaning.HARM, "LABEL_1": Meaning.NEUTRAL}
    scorer = get_scorer("classifier:tomh/toxigen_roberta", folder=folder, meanings=swapped, device=CPU)
    assert [attribute.meaning for attribute in scorer.attributes] == [Meaning.HARM, Meaning.NEUTRAL]


def test_the_fingerprint_is_that_of_the_same_files_under_another_name(tmp_path):
    folder = save_classifier(tmp_path, id2label=labels_of(HATEBERT))
    meanings = {"LABEL_1": Meaning.HARM}
    by_folder = get_scorer(f"classifier:{folder}", meanings=meanings, device=CPU)
    assert get_scorer(f"classifier:{HATEBERT}", folder=folder, device=CPU).fingerprint() == by_folder.fingerprint()


def test_hatebert_as_it_is_published_works_once_its_tokenizer_is_beside_it(tmp_path, monkeypatch):
    """A pickle, and no tokenizer: the hub's files are refused, those with BERT's tokenizer are converted."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    published = tmp_path / "published"
    bert(id2label=labels_of(HATEBERT)).save_pretrained(published)
    torch.save(bert(id2label=labels_of(HATEBERT)).state_dict(), published / "pytorch_model.bin")
    (published / "model.safetensors").unlink()
    with StandInHub() as hub:
        hub.add(HATEBERT, published)
        with pytest.raises(ScorerUnavailable, match="pickled weights can run code"):
            get_scorer(f"classifier:{HATEBERT}", endpoint=hub.endpoint)
    alone = convert_classifier(published, tmp_path / "alone")
    with pytest.raises(
        ScorerUnavailable, match="a tokenizer without a vocabulary: save the tokenizer beside the weights"
    ):
        get_scorer(f"classifier:{HATEBERT}", folder=alone)
    whole = Path(shutil.copytree(published, tmp_path / "whole"))
    tokenizer().save_pretrained(whole)
    scorer = get_scorer(f"classifier:{HATEBERT}", folder=convert_classifier(whole, tmp_path / "converted"), device=CPU)
    assert scorer.attribute_names == ("LABEL_0", "LABEL_1")
    assert scorer.score(["the and you"]).reasons == (None,)


def test_a_known_classifier_of_the_hub_is_asked_for_by_its_id(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    hub_id = "textdetox/xlmr-large-toxicity-classifier"
    folder = save_classifier(tmp_path / "model", id2label=labels_of(hub_id))
    with StandInHub() as hub:
        commit = hub.add(hub_id, folder)
        scorer = get_scorer(f"classifier:{hub_id}", endpoint=hub.endpoint, device=CPU)
    assert scorer.revision == commit


def test_of_a_classifier_that_needs_code_of_its_own_no_weights_are_fetched(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    folder = save_classifier(tmp_path / "model", id2label=labels_of(HATEBERT))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"auto_map": {"AutoModel": "theirs.Model"}}))
    with StandInHub() as hub:
        hub.add(HATEBERT, folder)
        with pytest.raises(ScorerUnavailable, match="needs code of its own to run"):
            get_scorer(f"classifier:{HATEBERT}", endpoint=hub.endpoint, device=CPU)
        assert not [line for line in hub.requests if "safetensors" in line and "/resolve/" in line]
