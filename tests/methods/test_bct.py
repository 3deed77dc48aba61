"""`bct`: the old head on new features, over the shared classes."""

import pytest
import torch
from test_focal_methods import NEW, OLD
from torch import nn
from torch.nn import functional

from hf_pct.methods import Batch
from hf_pct.methods.losses.bct import BackwardCompatibleTraining
from hf_pct.training.references.feature_parts import FrozenHead
from hf_pct.training.references.spec import SharedClasses


class Tiny(nn.Module):
    def __init__(self, width=4, classes=3):
        super().__init__()
        torch.manual_seed(0)
        self.classifier = nn.Linear(width, classes)


def batch(features, head):
    rows = len(features)
    labels = torch.tensor([0, 2, 1, -100][:rows])
    logits = torch.zeros(rows, 3)
    return Batch(logits, logits, labels, SharedClasses(OLD, NEW), features=features, reference_head=head)


def test_cross_entropy_of_the_old_head_over_shared_classes():
    model = Tiny()
    head, features = FrozenHead(model, torch.device("cpu")), torch.randn(4, 4, requires_grad=True)
    seen = batch(features, head)
    rows = BackwardCompatibleTraining().loss(seen)
    shared = model.classifier(features)[:, [1, 0]]  # old order a, b, gone; new order b, added, a
    expected = functional.cross_entropy(shared[:2], torch.tensor([0, 1]), reduction="none")
    torch.testing.assert_close(rows[:2], expected)
    assert seen.known.tolist() == [True, True, False, False], "rows of added classes are averaged in as zeros"
    rows.sum().backward()
    assert features.grad.abs().sum() > 0
    assert model.classifier.weight.grad is None, "the head is frozen"


@pytest.mark.parametrize("width", [2, 4, 7])
def test_features_of_another_width_are_cut_or_padded(width):
    model = Tiny()
    head, features = FrozenHead(model, torch.device("cpu")), torch.randn(4, width)
    kept = min(width, 4)
    fitted = torch.zeros(4, 4)
    fitted[:, :kept] = features[:, :kept]
    torch.testing.assert_close(head(features), model.classifier(fitted))


def test_the_head_is_a_copy():
    model = Tiny()
    head, features = FrozenHead(model, torch.device("cpu")), torch.randn(2, 4)
    before = head(features)
    nn.init.zeros_(model.classifier.weight)
    torch.testing.assert_close(head(features), before)


def test_a_batch_without_features_is_refused():
    with pytest.raises(ValueError, match="features and the old model's head"):
        BackwardCompatibleTraining().loss(batch(torch.zeros(2, 4), None))
