"""`margin`: the bias is on added classes alone and in training alone; both distillations, and what is missing."""

import pytest
import torch
from test_focal_methods import NEW, OLD
from torch.nn import functional

from hf_pct.methods import Batch
from hf_pct.methods.losses.margin import MarginPreserving
from hf_pct.training.references.spec import SharedClasses


def test_the_bias_is_on_added_classes():
    logits = torch.zeros(2, 3)
    added = ~SharedClasses(OLD, NEW).known()
    assert MarginPreserving(added_bias=4.0).label_logits(logits, added).tolist() == [[0.0, 4.0, 0.0]] * 2


@pytest.mark.parametrize("distance", ["kl", "l2"])
def test_the_distance_is_the_papers(distance):
    generator = torch.Generator().manual_seed(0)
    new, old = torch.randn(6, 3, generator=generator), torch.randn(6, 3, generator=generator)
    labels = torch.tensor([0, 2, 0, 2, 0, 1])
    seen = Batch(new, old, labels, SharedClasses(OLD, NEW))
    weight = 1.0 + 5.0 * seen.right.float()
    if distance == "l2":
        expected = 0.4 * 0.5 * (new[:, [0, 2]] - old[:, [1, 0]]).square().mean(-1)
    else:
        ours, theirs = (value / 5.0 for value in (new[:, [0, 2]], old[:, [1, 0]]))
        divergence = functional.kl_div(ours.log_softmax(-1), theirs.log_softmax(-1), log_target=True, reduction="none")
        expected = divergence.sum(-1)
    torch.testing.assert_close(MarginPreserving(distance=distance).loss(seen), weight * expected)


def test_both_models_are_weighed_and_named():
    assert MarginPreserving(independent_weight=0.5).weights(["old"]) == {"old": 1.0, "independent": 0.5}
    assert MarginPreserving(independent_weight=0).weights(["old"]) == {"old": 1.0}
    assert MarginPreserving(independent_model="./new").references() == {"independent": "./new"}
    assert MarginPreserving().table_width(10) == 20


def test_what_is_wrong_is_said_at_once():
    with pytest.raises(ValueError, match=r"(?s)added_bias=-1.*distance='cos'.*soft_temperature=0"):
        MarginPreserving(added_bias=-1, distance="cos", soft_temperature=0)
