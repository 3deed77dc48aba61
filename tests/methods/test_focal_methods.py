"""Losses when classes are added: probabilities are over all classes of each model, distances over the shared ones."""

import torch
from torch.nn import functional

from hf_pct.methods import Batch
from hf_pct.methods.losses.focal import DynamicFocalDistillation, FocalDistillation
from hf_pct.methods.losses.naive import NaiveReweighting
from hf_pct.training.references.spec import SharedClasses

OLD, NEW = ["a", "b", "gone"], ["b", "added", "a"]


def batch(seed=0, rows=12):
    generator = torch.Generator().manual_seed(seed)
    new, old = torch.randn(rows, 3, generator=generator), torch.randn(rows, 3, generator=generator)
    labels = torch.tensor([0, 1, 2, -100] * (rows // 4))
    return Batch(new, old, labels, SharedClasses(OLD, NEW))


def test_what_a_batch_shows_when_classes_differ():
    seen = batch()
    torch.testing.assert_close(seen.logits, seen.all_logits[:, [0, 2]])
    torch.testing.assert_close(seen.reference, seen.all_reference[:, [1, 0]])
    assert seen.known.tolist() == [True, False, True, False] * 3
    assert seen.labels[seen.known].tolist() == [0, 1] * 3
    assert seen.reference_columns[seen.known].tolist() == [1, 0] * 3
    answers = [OLD[index] for index in seen.all_reference.argmax(-1)]
    truth = [NEW[label] if label >= 0 else None for label in seen.all_labels]
    assert seen.right.tolist() == [
        answer == label and label != "added" for answer, label in zip(answers, truth, strict=True)
    ]


def test_naive_counts_what_an_added_class_takes_away():
    seen = batch(seed=3)
    right = seen.right
    assert right.any()
    expected = functional.cross_entropy(seen.all_logits[right], seen.all_labels[right], reduction="none")
    torch.testing.assert_close(NaiveReweighting().loss(seen)[right], expected)
    shared_only = functional.cross_entropy(seen.logits[right], seen.labels[right], reduction="none")
    assert (expected - shared_only).min() > 1e-2  # what a softmax over the shared classes would miss


def test_the_dynamic_gate_sees_probability_that_went_to_an_added_class():
    new = torch.tensor([[5.0, 9.0, 0.0]])  # most of it is on the added class
    old = torch.tensor([[0.0, 2.0, 0.0]])
    seen = Batch(new, old, torch.tensor([0]), SharedClasses(OLD, NEW))
    gate = DynamicFocalDistillation().gate(seen)
    p_new, p_old = new.softmax(-1)[0, 0], old.softmax(-1)[0, 1]
    assert gate.tolist() == [bool(p_old > p_new)] == [True]
    assert new[:, [0, 2]].softmax(-1)[0, 0] > p_old  # over the shared classes it would have stayed shut


def test_distances_are_over_the_shared_classes():
    seen = batch()
    other = Batch(seen.all_logits + torch.tensor([0.0, 7.0, 0.0]), seen.all_reference, seen.all_labels, seen.classes)
    method = FocalDistillation()
    torch.testing.assert_close(method.loss(seen), method.loss(other))
