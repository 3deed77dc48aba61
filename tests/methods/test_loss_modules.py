"""What the losses on logits promise: focal weights, scale, top-K by row, and means that survive accumulation."""

import subprocess
import sys

import pytest
import torch
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from hf_pct.methods.loss_modules import (
    IGNORED,
    FocalDistillationLoss,
    LogitDifferenceInhibitionLoss,
    NaiveReweightingLoss,
    largest_columns,
)

CLASSES = 7


def batch(rows=12, classes=CLASSES, seed=0):
    """New logits that want a gradient, reference logits, and labels of which the reference gets every other one."""
    generator = torch.Generator().manual_seed(seed)
    new = torch.randn(rows, classes, generator=generator).requires_grad_()
    reference = 3 * torch.randn(rows, classes, generator=generator)
    labels = reference.argmax(-1)
    labels[1::2] = (labels[1::2] + 1) % classes
    return new, reference, labels


class Work(TorchDispatchMode):
    """Counts what torch does while this is on: elements of tensors that it fills (views fill nothing), and that `topk`
    searches, which takes far longer for each of them."""

    def __init__(self):
        super().__init__()
        self.written = self.searched = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if not func.is_view:
            self.written += sum(leaf.numel() for leaf in tree_leaves(out) if isinstance(leaf, torch.Tensor))
        if func is torch.ops.aten.topk.default:
            self.searched += args[0].numel()
        return out


def gradient(loss, new, reference, labels):
    return torch.autograd.grad(loss(new, reference, labels), new)[0]


ALL = [
    NaiveReweightingLoss(),
    FocalDistillationLoss(),
    FocalDistillationLoss(class_reduction="sum"),
    FocalDistillationLoss(distance="kl"),
    FocalDistillationLoss(distance="kl", temperature=2.0, dynamic=True),
    LogitDifferenceInhibitionLoss(top_k=3),
    LogitDifferenceInhibitionLoss(top_k=None, p=1, margin=0.5, exclude_label=True, top_k_from="new"),
]


@pytest.mark.parametrize("distance", ["lm", "kl"])
def test_a_row_the_reference_got_wrong_pulls_with_alpha_over_alpha_plus_beta(distance):
    row, reference, _ = batch(rows=1)
    answer = reference.argmax(-1).item()
    new, reference = row.detach().repeat(2, 1).requires_grad_(), reference.repeat(2, 1)
    labels = torch.tensor([answer, (answer + 1) % CLASSES])  # the same row twice: once right, once wrong
    right, wrong = gradient(FocalDistillationLoss(alpha=1, beta=5, distance=distance), new, reference, labels)
    torch.testing.assert_close(wrong, right / 6)


@pytest.mark.parametrize("distance", ["lm", "kl"])
def test_the_weight_belongs_to_the_row_and_not_to_the_batch(distance):
    new, reference, labels = batch()
    focal = gradient(FocalDistillationLoss(1, 5, distance), new, reference, labels)
    plain = gradient(FocalDistillationLoss(1, 0, distance), new, reference, labels)
    weights = torch.tensor([6.0, 1.0]).repeat(6).unsqueeze(-1)
    torch.testing.assert_close(focal, weights * plain)


def test_logit_matching_is_half_the_squared_difference_averaged_over_classes():
    new, reference, labels = batch()
    weights = torch.tensor([6.0, 1.0]).repeat(6)
    squared = (new - reference).square()
    torch.testing.assert_close(
        FocalDistillationLoss()(new, reference, labels), (weights * squared.mean(-1) / 2).mean()
    )
    summed = FocalDistillationLoss(class_reduction="sum")(new, reference, labels)
    torch.testing.assert_close(summed, (weights * squared.sum(-1) / 2).mean())


def test_kl_agrees_with_torch_and_is_scaled_by_temperature_squared():
    new, reference, labels = batch()
    ours = FocalDistillationLoss(alpha=1, beta=0, distance="kl", temperature=3.0)(new, reference, labels)
    theirs = functional.kl_div(
        functional.log_softmax(new / 3, -1), functional.softmax(reference / 3, -1), reduction="batchmean"
    )
    torch.testing.assert_close(ours, 9 * theirs)


def test_a_hot_kl_points_where_logit_matching_points():
    new, reference, labels = batch(rows=32)
    new = (new.detach() - new.detach().mean(-1, keepdim=True)).requires_grad_()
    reference = reference - reference.mean(-1, keepdim=True)
    hot = FocalDistillationLoss(distance="kl", temperature=1000.0)
    cosine = functional.cosine_similarity(
        gradient(hot, new, reference, labels).flatten(),
        gradient(FocalDistillationLoss(), new, reference, labels).flatten(),
        dim=0,
    )
    assert cosine > 0.999
    # and not only in direction: averaged over classes, the two have the same value
    torch.testing.assert_close(
        hot(new, reference, labels), FocalDistillationLoss()(new, reference, labels), rtol=0.01, atol=0
    )


def test_the_dynamic_gate_follows_the_new_model():
    reference = torch.tensor([[2.0, 0.0], [2.0, 0.0]])
    new = torch.tensor([[1.0, 0.0], [3.0, 0.0]], requires_grad=True)
    labels = torch.tensor([0, 0])  # the reference is right on both; only on the first is it the surer one
    behind, ahead = gradient(FocalDistillationLoss(0, 1, "kl", 1.0, dynamic=True), new, reference, labels)
    assert behind.abs().sum() > 0
    assert ahead.abs().sum() == 0


def test_naive_weighs_right_rows_only():
    new, reference, labels = batch()
    expected = functional.cross_entropy(new, labels, reduction="none")[::2].sum() / 12
    torch.testing.assert_close(NaiveReweightingLoss()(new, reference, labels), expected)


def test_top_k_is_chosen_for_each_row():
    reference = torch.tensor([[9.0, 8.0, 0.0, 0.0], [0.0, 0.0, 8.0, 9.0]])
    new = torch.zeros(2, 4, requires_grad=True)
    touched = gradient(LogitDifferenceInhibitionLoss(top_k=2), new, reference, torch.tensor([0, 0])) != 0
    assert touched.tolist() == [[True, True, False, False], [False, False, True, True]]


def test_top_k_of_the_new_model_and_without_the_label():
    reference = torch.tensor([[1.0, 2.0, 3.0, 4.0]])
    new = torch.tensor([[9.0, 8.0, 7.0, 0.0]])
    label = torch.tensor([0])
    by_new = LogitDifferenceInhibitionLoss(top_k=2, top_k_from="new")
    assert by_new(new, reference, label).item() == pytest.approx((8**2 + 6**2) / 2)
    by_new.exclude_label = True
    assert by_new(new, reference, label).item() == pytest.approx((6**2 + 4**2) / 2)


@pytest.mark.parametrize("top_k", [CLASSES, 1000, None])
def test_every_class_equals_the_full_loss(top_k):
    new, reference, labels = batch()
    new, reference = new.double(), reference.double()
    full = (new - reference).abs().sub(0.1).clamp_min(0).pow(3).mean()
    ours = LogitDifferenceInhibitionLoss(top_k=top_k, p=3, margin=0.1)(new, reference, labels)
    torch.testing.assert_close(ours, full, rtol=0, atol=1e-7)


def test_a_model_at_its_reference_has_no_gradient():
    _, reference, labels = batch()
    new = reference.clone().requires_grad_()
    for loss in (LogitDifferenceInhibitionLoss(3), FocalDistillationLoss(), FocalDistillationLoss(distance="kl")):
        assert gradient(loss, new, reference, labels).abs().max() < 1e-7


@pytest.mark.parametrize("loss", ALL, ids=str)
def test_the_mean_of_four_means_is_the_mean_whatever_rows_are_ignored(loss):
    new, reference, labels = batch()
    labels[:5] = IGNORED  # the first micro-batch has no row left
    whole = gradient(loss, new, reference, labels)
    parts = []
    for i in range(0, 12, 3):
        piece = new[i : i + 3].detach().requires_grad_()
        parts.append(gradient(loss, piece, reference[i : i + 3], labels[i : i + 3]) / 4)
    torch.testing.assert_close(torch.cat(parts), whole)
    assert whole[:5].abs().sum() == 0


@pytest.mark.parametrize("loss", ALL, ids=str)
def test_a_batch_without_rows_or_without_known_rows_is_zero(loss):
    new, reference, labels = batch()
    assert loss(new, reference, torch.full_like(labels, IGNORED)).item() == 0
    assert loss(new[:0], reference[:0], labels[:0]).item() == 0


def test_a_caller_can_say_what_the_reference_got_right():
    new, reference, labels = batch()
    nothing = torch.zeros(12, dtype=torch.bool)
    focal, plain = FocalDistillationLoss(1, 5), FocalDistillationLoss(1, 0)
    torch.testing.assert_close(focal(new, reference, labels, nothing), plain(new, reference, labels))


@pytest.mark.parametrize("columns", [7, 255, 256, 767, 768, 800, 10_000])  # too few for blocks, whole blocks, a rest
@pytest.mark.parametrize("count", [1, 3])
def test_the_largest_columns_are_those_of_topk(columns, count):
    values = torch.randn(64, columns, generator=torch.Generator().manual_seed(columns))
    found, expected = largest_columns(values, count), values.topk(count).indices
    assert torch.equal(found.sort(-1).values, expected.sort(-1).values)


def test_largest_columns_of_ties_and_of_rows_without_finite_values():
    """Which of equal values is taken is open, as with `topk`; that none is taken twice and none is missed is not."""
    values = torch.zeros(3, 2_000)
    values[0, ::2] = 1.0
    values[1] = float("-inf")
    values[2, 1_999] = float("nan")
    found = largest_columns(values, 5)
    torch.testing.assert_close(
        values.gather(-1, found).sort(-1).values, values.topk(5).values.sort(-1).values, equal_nan=True
    )
    assert all(len(set(row)) == 5 for row in found.tolist())


def test_ten_of_ten_thousand_classes_cost_less_than_all():
    """Cost as work that is the same on every machine; benchmarks/growth.py has the time."""
    new, reference, labels = batch(rows=128, classes=10_000)
    work = {}
    for top_k in (10, None):
        with Work() as work[top_k]:
            gradient(LogitDifferenceInhibitionLoss(top_k), new, reference, labels)
    assert work[None].written > 4 * new.numel()  # differences, squares and gradients: the count sees both passes
    assert work[10].written < work[None].written / 2  # hardly more than the gradient, filled with zeros first
    assert 0 < work[10].searched < new.numel() / 10  # a search of every class would cost as much as the loss over all


def test_nonsense_is_refused_when_built_and_every_problem_is_named():
    with pytest.raises(ValueError, match=r"alpha=-1.*\n.*beta=nan.*\n.*temperature=0.*\n.*distance='l3'"):
        FocalDistillationLoss(alpha=-1, beta=float("nan"), temperature=0, distance="l3")
    with pytest.raises(ValueError, match=r"top_k_from='old'.*\n.*top_k=0.*\n.*p=0.*\n.*margin=-1"):
        LogitDifferenceInhibitionLoss(top_k=0, p=0, margin=-1, top_k_from="old")


def test_shapes_that_do_not_fit_are_named():
    new, reference, labels = batch()
    with pytest.raises(ValueError, match=r"new logits \(12, 7\), reference logits \(12, 5\)"):
        FocalDistillationLoss()(new, reference[:, :5], labels)


def test_config_builds_the_same_loss_again():
    loss = FocalDistillationLoss(2.0, 3.0, "kl", 7.0, dynamic=True)
    config = loss.config()
    assert config.pop("loss") == "FocalDistillationLoss"
    assert repr(FocalDistillationLoss(**config)) == repr(loss)


def test_the_losses_do_not_need_transformers():
    code = "import sys, hf_pct.methods.loss_modules; sys.exit('transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
