"""Students: their shapes, what they learn, and what a grid leaves behind."""

import math
from dataclasses import replace

import pytest
import torch
from transformers import AutoConfig, PreTrainedModel

from scoring.language_models import LoadedModel, load, resolve
from scoring.language_models.architecture import inspect
from scoring.refusals import Refused
from scoring.training.distillation import (
    PROJECTION,
    DistillationLoss,
    distil,
    hidden_state_loss,
    read_documents,
    soft_target_loss,
    split_documents,
)
from scoring.training.examples import Examples, collate, pack_documents
from scoring.training.pretraining import IGNORED, prediction_loss
from scoring.training.settings import Distillation
from scoring.training.students import FAMILIES as DISTILLED
from scoring.training.students import build_student, configure_student
from tests.scoring.families import FAMILIES, tiny, tiny_folder
from tests.scoring.training.conftest import sentences

QUICK = {"pretraining_steps": 25, "steps": 25, "batch": 4, "context": 24, "learning_rate": 2e-2}


@torch.no_grad()
def divergence(teacher: LoadedModel, student: PreTrainedModel) -> float:
    """Kullback and Leibler's, of the student's predictions from the teacher's, on a text."""
    ids = torch.tensor([teacher.tokenizer(sentences(1, seed=1)[0])["input_ids"]])
    logits = [model(input_ids=ids).logits[0] for model in (student, teacher.model)]
    return soft_target_loss(*logits, 1.0).item() - soft_target_loss(logits[1], logits[1], 1.0).item()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options"), [("GPT-2", {}), ("BERT", {}), ("GPT-2", {"hidden_weight": 0.1})])
def test_a_grid_is_folders_that_load_as_models_of_the_teachers_family(name, options, texts, tmp_path):
    folders = distil(str(tiny_folder(name)), [1, 2], [16], [texts], tmp_path / "grid", Distillation(**QUICK, **options))
    assert [folder.name.rpartition("-distilled-")[2] for folder in folders] == ["l1-h16", "l2-h16"]
    for depth, folder in enumerate(folders, start=1):
        resolved = resolve(str(folder))
        student = load(resolved.source, resolved.location, resolved.revision)
        architecture = resolved.architecture
        assert (architecture.layers, architecture.hidden_size, architecture.heads) == (depth, 16, 1)
        assert architecture.family == tiny(name).architecture.family
        assert student.tokenizer.get_vocab() == tiny(name).tokenizer.get_vocab()
        card = (folder / "README.md").read_text(encoding="utf-8")
        assert f"hidden size 16, context {architecture.context}" in card
        assert "texts.txt" in card
        fresh = build_student(tiny(name).model, architecture, depth, 16, seed=0)
        gaps = [divergence(tiny(name), model) for model in (student.model, fresh.eval())]
        assert gaps[0] < gaps[1] * 0.75, gaps
    assert not list((tmp_path / "grid" / "checkpoints").iterdir())


@pytest.mark.parametrize("name", [name for name in FAMILIES if FAMILIES[name].model_type in DISTILLED])
def test_a_student_of_every_family_has_the_depth_and_width_that_were_asked_for(name):
    teacher = tiny(name)
    student = build_student(teacher.model, teacher.architecture, 3, 128, seed=0)
    architecture = inspect(student.config)
    assert (architecture.layers, architecture.hidden_size, architecture.heads) == (3, 128, 2)
    ids = torch.tensor([teacher.tokenizer("The river rises.")["input_ids"]])
    states = student(input_ids=ids, output_hidden_states=True).hidden_states
    assert len(states) == 4
    assert {state.shape[-1] for state in states} == {128}


def test_all_distilled_families_are_tried():
    assert {family.model_type for family in FAMILIES.values()} >= set(DISTILLED)


def test_the_feed_forward_layers_keep_their_ratio():
    teacher = AutoConfig.for_model("bert", hidden_size=256, intermediate_size=768, num_attention_heads=4)
    assert configure_student(teacher, 1, 64).intermediate_size == 192


@pytest.mark.parametrize(
    ("width", "groups"),
    [(512, 2), (256, 1), (384, 6), (128, 2), (64, 1)],  # heads of 64: 8, 4, 6, 2 and 1; four share keys and values
)
def test_heads_share_keys_and_values_as_the_teachers_do_where_they_divide_and_not_at_all_elsewhere(width, groups):
    teacher = AutoConfig.for_model("llama", hidden_size=1024, num_attention_heads=16, num_key_value_heads=4)
    student = configure_student(teacher, 1, width)
    assert (student.num_attention_heads, student.num_key_value_heads) == (width // 64, groups)
    assert student.head_dim == 64


def test_an_inner_size_that_gpt2_names_keeps_its_ratio_too_and_without_one_there_is_none():
    teacher = AutoConfig.for_model("gpt2", n_embd=256, n_inner=768)
    assert configure_student(teacher, 1, 64).n_inner == 192
    assert configure_student(AutoConfig.for_model("gpt2", n_embd=256), 1, 64).n_inner is None


def test_kinds_of_layers_come_in_the_teachers_order_again_and_again():
    teacher = AutoConfig.for_model("llama", hidden_size=128, num_attention_heads=2, num_key_value_heads=2)
    teacher.layer_types = ["sliding_attention", "full_attention", "full_attention"]
    assert configure_student(teacher, 4, 64).layer_types == [*teacher.layer_types, "sliding_attention"]


@pytest.mark.parametrize(("width", "heads"), [(2, 1), (6, 1), (62, 1), (64, 1), (128, 2)])
def test_a_width_is_even_and_above_one_head_a_multiple_of_heads(width, heads):
    student = configure_student(AutoConfig.for_model("gpt2"), 1, width)
    assert (student.hidden_size, student.num_attention_heads, student.num_hidden_layers) == (width, heads, 1)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_student_starts_as_its_seed_says_in_whole_precision(seed):
    teacher = tiny("GPT-2")
    students = [build_student(teacher.model, teacher.architecture, 1, 16, seed=number) for number in (seed, seed, 0)]
    first, again, other = (student.transformer.wte.weight for student in students)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert first.dtype == torch.float32


@pytest.mark.parametrize(
    ("family", "depth", "width", "words"),
    [
        ("gpt2", 1, 7, "hidden = 7: use a multiple of 64"),
        ("albert", 1, 64, "teacher = 'albert': use a model of one of bert"),
        ("gpt2", 0, 64, "layers = 0: use 1 or more"),
        ("gpt2", 1, 100, "hidden = 100: use a multiple of 64"),
        ("gpt2", 1, 0, "hidden = 0: use a multiple of 64"),
    ],
)
def test_shapes_that_make_no_student_are_refused(family, depth, width, words):
    with pytest.raises(Refused, match=words):
        configure_student(AutoConfig.for_model(family), depth, width)


def test_soft_targets_are_a_cross_entropy():
    # Of (0.5, 0.5) and (0.9, 0.1): -(0.5 ln 0.9 + 0.5 ln 0.1).
    loss = soft_target_loss(torch.tensor([[0.9, 0.1]]).log(), torch.tensor([[0.5, 0.5]]).log(), 1.0)
    assert loss.item() == pytest.approx(-0.5 * math.log(0.9) - 0.5 * math.log(0.1))


@pytest.mark.parametrize("temperature", [0.5, 1.0, 4.0])
def test_a_student_that_predicts_as_its_teacher_has_nothing_to_learn(temperature):
    teacher = torch.tensor([[1.0, -2.0, 0.5], [0.0, 3.0, 0.0]])
    logits = (teacher + 7).requires_grad_()  # a constant changes no distribution
    soft_target_loss(logits, teacher, temperature).backward()
    assert logits.grad is not None
    assert logits.grad.abs().max() < 1e-6


def test_temperature_leaves_the_size_of_the_gradient():
    teacher, start = torch.tensor([[0.02, -0.01, 0.0]]), torch.zeros(1, 3)
    gradients = []
    for temperature in (1.0, 10.0):
        logits = start.clone().requires_grad_()
        soft_target_loss(logits, teacher, temperature).backward()
        gradients.append(logits.grad)
    assert torch.allclose(*gradients, rtol=0.02)


def test_hidden_states_compare_at_the_same_share_of_the_depth():
    own = [torch.full((2, 3), value) for value in (0.0, 1.0, 2.0)]
    teacher = [torch.full((2, 3), value) for value in (0.0, 9.0, 3.0, 9.0, 5.0)]
    # Layers 0, 1 and 2 of two against 0, 2 and 4 of four: (0 + 4 + 9) / 3.
    assert hidden_state_loss(own, teacher).item() == pytest.approx(13 / 3)


def causal_batch():
    teacher = tiny("GPT-2")
    rows = pack_documents(sentences(8, seed=2), teacher.tokenizer, 16)
    return collate([Examples(rows, 4, 0)[number] for number in range(4)], padding=0)


def test_the_first_stage_is_language_modelling_alone():
    teacher, batch = tiny("GPT-2"), causal_batch()
    student = build_student(teacher.model, teacher.architecture, 1, 16, seed=0).eval()
    loss = DistillationLoss(teacher.model, 5, Distillation(**QUICK))
    assert loss(student, batch, 4).item() == pytest.approx(
        prediction_loss(student, batch["input_ids"], batch["labels"], None).item(), rel=1e-5
    )


def test_the_second_stage_is_soft_targets_and_what_is_weighed():
    teacher, batch = tiny("GPT-2"), causal_batch()
    with torch.no_grad():
        logits = teacher.model(input_ids=batch["input_ids"]).logits[batch["labels"] != IGNORED]
    entropy = torch.distributions.Categorical(logits=logits).entropy().mean().item()
    plain = DistillationLoss(teacher.model, 5, Distillation(**QUICK))(teacher.model, batch, 5).item()
    assert plain == pytest.approx(entropy, rel=1e-5)  # the teacher's cross-entropy with itself
    weighed = Distillation(**QUICK, language_modelling_weight=0.5)
    own = prediction_loss(teacher.model, batch["input_ids"], batch["labels"], None).item()
    assert DistillationLoss(teacher.model, 5, weighed)(teacher.model, batch, 5).item() == pytest.approx(
        plain + 0.5 * own, rel=1e-5
    )


def test_held_out_texts_are_not_learnt():
    documents = sentences(100, seed=3)
    learnt, held_out = split_documents(documents, seed=0)
    assert sorted(learnt + held_out) == sorted(documents)
    assert len(held_out) == 4
    assert (learnt, held_out) == split_documents(documents, seed=0)


@pytest.mark.slow
def test_what_is_made_stays_and_other_settings_are_refused(texts, tmp_path, causal_teacher):
    settings = Distillation(**{**QUICK, "pretraining_steps": 1, "steps": 1})
    (folder,) = distil(str(causal_teacher), [1], [16], [texts], tmp_path / "grid", settings)
    written_at = (folder / "model.safetensors").stat().st_mtime_ns
    distil(str(causal_teacher), [1], [16], [texts], tmp_path / "grid", settings)
    assert (folder / "model.safetensors").stat().st_mtime_ns == written_at
    with pytest.raises(Refused, match=r"temperature = 2.0: .*grid was begun with 1.0; give that, or a new output"):
        distil(str(causal_teacher), [1], [16], [texts], tmp_path / "grid", replace(settings, temperature=2.0))
    texts.write_text(texts.read_text() + "One more.\n")
    with pytest.raises(Refused, match="texts = "):
        distil(str(causal_teacher), [1], [16], [texts], tmp_path / "grid", settings)


def test_a_permutation_model_is_no_teacher(texts, tmp_path):
    with pytest.raises(Refused, match="is a permutation language model; give a causal or a masked one"):
        distil(str(tiny_folder("XLNet")), [1], [16], [texts], tmp_path / "grid", Distillation(**QUICK))


@pytest.mark.slow
def test_a_loss_that_is_no_number_ends_the_run(texts, tmp_path, causal_teacher):
    settings = Distillation(**{**QUICK, "learning_rate": 1e25, "pretraining_steps": 8, "steps": 8})
    with pytest.raises(FloatingPointError, match="lower the learning rate"):
        distil(str(causal_teacher), [1], [16], [texts], tmp_path / "grid", settings)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("pretraining_steps", -1),
        ("steps", 0),
        ("batch", 0),
        ("context", 3),
        ("learning_rate", 0.0),
        ("learning_rate", math.nan),
        ("temperature", 0.0),
        ("language_modelling_weight", -0.1),
        ("hidden_weight", math.inf),
        ("masked_share", 1.0),
        ("precision", "float64"),
        ("checkpoint_every", 0),
    ],
)
def test_settings_that_make_no_sense_are_refused_by_name(field, value):
    with pytest.raises(Refused, match=f"^{field} = "):
        Distillation(**{field: value})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("pretraining_steps", 0),
        ("steps", 1),
        ("batch", 1),
        ("context", 4),
        ("temperature", 0.5),
        ("language_modelling_weight", 0.0),
        ("hidden_weight", 0.5),
        ("masked_share", 0.5),
        ("checkpoint_every", 1),
        ("precision", "bfloat16"),
    ],
)
def test_settings_at_the_edge_of_sense_are_taken(field, value):
    assert getattr(Distillation(**{field: value}), field) == value


@pytest.mark.parametrize(
    ("field", "value", "advice"),
    [
        ("pretraining_steps", -1, "use 0 or more"),
        ("steps", 0, "use 1 or more"),
        ("masked_share", 0.0, "use a number between 0 and 1"),
        ("masked_share", 1.5, "use a number between 0 and 1"),
        ("hidden_weight", -0.5, "use 0 or a number above"),
    ],
)
def test_a_refused_setting_comes_with_what_would_do(field, value, advice):
    with pytest.raises(Refused, match=f"^{field} = {value}: {advice}$"):
        Distillation(**{field: value})


def test_both_stages_last_an_epoch_where_no_steps_are_given():
    loop = Distillation(batch=3, seed=4, learning_rate=1e-3, checkpoint_every=5, precision="bfloat16").loop(17)
    assert (loop.stages, loop.batch, loop.seed, loop.peak_rate) == ([17, 17], 3, 4, 1e-3)
    assert (loop.checkpoint_every, loop.precision, loop.accumulation) == (5, "bfloat16", 1)
    assert Distillation(pretraining_steps=0, steps=9).loop(17).stages == [0, 9]


def test_documents_are_the_distinct_texts_of_all_files_in_their_order(tmp_path):
    first, second = tmp_path / "one.txt", tmp_path / "two.txt"
    first.write_text("b\n \na\nb\n", encoding="utf-8")
    second.write_text("a\nc\n", encoding="utf-8")
    assert read_documents([first, second]) == ["b", "a", "c"]
    assert read_documents([second]) == ["a", "c"]
    second.write_text("a\na\n", encoding="utf-8")
    with pytest.raises(Refused, match=r"texts = '.*two\.txt': hold fewer than two texts; give files with one a line"):
        read_documents([second])


def test_one_text_of_a_few_is_held_out():
    learnt, held_out = split_documents(["a", "b", "c"], seed=0)
    assert (len(learnt), len(held_out)) == (2, 1)
    assert split_documents(list("abcdefgh"), seed=0) != split_documents(list("abcdefgh"), seed=1)


def test_hidden_states_of_texts_alone_are_weighed_after_a_projection():
    teacher, batch = tiny("GPT-2"), causal_batch()
    batch["attention_mask"][:, 12:] = 0
    student = build_student(teacher.model, teacher.architecture, 1, 16, seed=0).eval()
    projection = torch.nn.Linear(16, 32, bias=False)
    student.add_module(PROJECTION, projection)
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
    with torch.no_grad():
        own, lesson = (model(**inputs, output_hidden_states=True) for model in (student, teacher.model))
        mask = batch["attention_mask"].bool()
        gap = hidden_state_loss(
            [projection(states[mask]) for states in own.hidden_states],
            [states[mask] for states in lesson.hidden_states],
        )
        plain, weighed = (
            DistillationLoss(teacher.model, 0, Distillation(**QUICK, hidden_weight=weight))(student, batch, 0)
            for weight in (0.0, 0.25)
        )
    assert weighed.item() - plain.item() == pytest.approx(0.25 * gap.item(), rel=1e-4)
