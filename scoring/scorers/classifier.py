"""Any text classifier of transformers, from a hub or a folder: regard, RoBERTa-ToxiGen, HateBERT-ToxiGen and others.

Only safetensors are read, and no code of a model's own is ever run.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import SafetensorError
from transformers import AutoModelForSequenceClassification, PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from scoring.attributes import Attribute, Meaning
from scoring.language_models import HubUnavailable, ModelRefused
from scoring.language_models.configuration import read_configuration
from scoring.language_models.hub import PUBLIC_HUB
from scoring.language_models.loading import quiet, read_tokenizer
from scoring.language_models.package import read_package
from scoring.scorers.base import ScorerUnavailable
from scoring.scorers.encoder import Activation, EncoderScorer
from scoring.scorers.hub_files import find_files
from scoring.scorers.labels import declare_labels
from scoring.scorers.precision import Precision


class ClassifierScorer(EncoderScorer):
    """Attributes are the model's labels. `revision` is the commit of a hub's model, "" for a folder.

    What a label means is read from its name where that leaves no doubt, else from `meanings`, which go before names.
    """

    def __init__(
        self,
        ref: str,
        *,
        meanings: Mapping[str, Meaning] | None = None,
        revision: str | None = None,
        endpoint: str = PUBLIC_HUB,
        token: str | None = None,
        may_fetch: bool = True,
        precision: str = Precision.FLOAT32,
        device: torch.device | None = None,
    ) -> None:
        """Load the classifier in folder `ref`, or of hub id `ref` at `revision` (a branch, tag or commit).

        Labels that exclude each other get shares that sum to 1 (softmax); those of a multi-label model, and a lone
        one, each a probability (sigmoid). Raises ScorerUnavailable, with a remedy, when there is no such classifier;
        UndeclaredLabel where it is not known what one of its labels means.
        """
        try:
            folder, self.revision = find_files(ref, revision, endpoint, token, may_fetch)
            with quiet(), read_package(folder, ref).staged() as folder:
                config = read_configuration(folder, ref)
                activation = _activation(ref, config)
                attributes = _attributes(ref, config, meanings or {})
                model = load_classifier(ref, folder, config)
                tokenizer = read_tokenizer(folder, ref, {})
                _refuse_another_tokenizer(ref, model, tokenizer)
        except (ModelRefused, HubUnavailable) as error:
            raise ScorerUnavailable(str(error)) from error
        super().__init__(model, tokenizer, attributes, activation, precision=precision, device=device)


def read_attributes(folder: str, meanings: Mapping[str, Meaning]) -> tuple[Attribute, ...]:
    """What the labels of the classifier in `folder` mean, without loading its weights.

    Raises ScorerUnavailable where there is no classifier; UndeclaredLabel as the classifier itself does.
    """
    try:
        path, _ = find_files(folder, None, PUBLIC_HUB, None, may_fetch=False)
        with quiet(), read_package(path, folder).staged() as stage_folder:
            config = read_configuration(stage_folder, folder)
        return _attributes(folder, config, meanings)
    except ModelRefused as error:
        raise ScorerUnavailable(str(error)) from error


def _attributes(ref: str, config: PretrainedConfig, meanings: Mapping[str, Meaning]) -> tuple[Attribute, ...]:
    exclusive = _activation(ref, config) is Activation.SOFTMAX
    return declare_labels(_labels(ref, config), meanings, f"config.json of {ref}", exclusive=exclusive)


def _labels(ref: str, config: PretrainedConfig) -> tuple[str, ...]:
    labels = tuple(str(config.id2label[number]) for number in range(config.num_labels))
    if len(set(labels)) < len(labels):
        raise ModelRefused(f"two labels of {ref} have the same name: give them names of their own in id2label")
    return labels


def _refuse_another_tokenizer(ref: str, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    embedding_count = model.get_input_embeddings().weight.shape[0]
    if len(tokenizer) > embedding_count:
        raise ModelRefused(
            f"the tokenizer of {ref} has {len(tokenizer):,} tokens and the model knows {embedding_count:,}: put the "
            "files of the "
            "tokenizer that it was trained with beside its weights"
        )


def _activation(ref: str, config: PretrainedConfig) -> Activation:
    if config.problem_type == "regression":
        raise ModelRefused(f"{ref} is a regression, whose outputs are no probabilities: use a classifier")
    if config.problem_type == "multi_label_classification" or config.num_labels == 1:
        return Activation.SIGMOID
    return Activation.SOFTMAX


def load_classifier(ref: str, folder: Path, config: PretrainedConfig) -> PreTrainedModel:
    """The classifier in `folder`, in float32, all of its weights there. Raises ModelRefused."""
    try:
        model_and_report: Any = AutoModelForSequenceClassification.from_pretrained(
            folder,
            config=config,
            dtype=torch.float32,
            ignore_mismatched_sizes=True,  # so that they are reported, and refused below
            output_loading_info=True,
            trust_remote_code=False,
            local_files_only=True,
            use_safetensors=True,
        )
    except (ValueError, OSError, KeyError, ImportError, SafetensorError) as error:
        raise ModelRefused(f"{ref} cannot be loaded as a text classifier: {error}") from error
    model, report = model_and_report
    # transformers fills these with random numbers, which would score as if they had been learnt.
    absent = sorted(report["missing_keys"] | {name for name, *_ in report["mismatched_keys"]})
    if absent:
        raise ModelRefused(
            f"the weights of {ref} lack {len(absent)} parameters of {type(model).__name__} "
            f"({', '.join(absent[:3])}): use a model trained as a text classifier"
        )
    return cast(PreTrainedModel, model)
