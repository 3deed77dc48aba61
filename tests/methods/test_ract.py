"""`ract`: the contrastive loss by hand, hard negatives from both models, and the edges."""

import pytest
import torch

from hf_pct.methods import Batch
from hf_pct.methods.losses.ract import RegressionAlleviatingTraining


def batch(new, old, labels):
    logits = torch.zeros(len(labels), 3)
    return Batch(logits, logits, torch.tensor(labels), features=new, reference_features=old)


def by_hand(new, old, labels, temperature, hardest=None):
    new, old = new / new.norm(dim=-1, keepdim=True), old / old.norm(dim=-1, keepdim=True)
    rows = []
    for row, label in enumerate(labels):
        others = [index for index, other in enumerate(labels) if other not in (label, -100)]
        positive = new[row] @ old[row]
        to_old = sorted((new[row] @ old[index] for index in others), reverse=True)[:hardest]
        to_new = sorted((new[row] @ new[index] for index in others), reverse=True)[:hardest]
        scores = torch.stack([positive, *to_old, *to_new]) / temperature
        rows.append(-scores.log_softmax(0)[0])
    return torch.stack(rows)


@pytest.mark.parametrize("hardest", [None, 1, 2])
def test_the_loss_is_the_papers(hardest):
    torch.manual_seed(0)
    new, old, labels = torch.randn(6, 5), torch.randn(6, 5), [0, 0, 1, 1, 2, -100]
    method = RegressionAlleviatingTraining(contrast_temperature=0.1, hard_negatives=hardest)
    expected = by_hand(new, old, labels, 0.1, hardest)
    torch.testing.assert_close(method.loss(batch(new, old, labels)), expected)


def test_the_same_features_far_from_other_classes_cost_nothing():
    features = torch.eye(3)
    loss = RegressionAlleviatingTraining().loss(batch(features, features, [0, 1, 2]))
    assert loss.max() < 1e-6


def test_a_batch_of_one_class_has_no_negatives_and_a_finite_gradient():
    new = torch.randn(3, 4, requires_grad=True)
    loss = RegressionAlleviatingTraining().loss(batch(new, torch.randn(3, 4), [1, 1, 1]))
    assert loss.tolist() == [0.0, 0.0, 0.0]
    loss.sum().backward()
    assert torch.isfinite(new.grad).all()


def test_other_widths_meet_where_both_have_features():
    torch.manual_seed(1)
    new, old, labels = torch.randn(4, 6), torch.randn(4, 3), [0, 1, 2, 0]
    method = RegressionAlleviatingTraining(contrast_temperature=1.0, hard_negatives=None)
    loss = method.loss(batch(new, old, labels))
    assert torch.isfinite(loss).all()
    scaled = method.loss(batch(new * 3.0, old * 0.1, labels))
    torch.testing.assert_close(loss, scaled)


def test_a_batch_without_features_is_refused():
    with pytest.raises(ValueError, match="features of the new and of the old model"):
        RegressionAlleviatingTraining().loss(batch(None, None, [0, 1]))
