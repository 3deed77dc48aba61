from pathlib import Path

import pytest
import timm
import torch
from bag_model import ROWS, Bag, pad
from fisher_families import FAMILIES, make_family
from merging_kit import tiny_bert
from torch import nn
from two_processes import run_in_two_processes

from hf_pct.models.fisher.diagonal import diagonal_fisher, fisher_batches, load_fisher, save_fisher
from hf_pct.models.fisher.per_sample import unsupported

HERE = Path(__file__).resolve().parent


def text_batch(size=6, length=9, seed=0):
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(1, 12, (size, length), generator=generator)  # few tokens: some come twice in a sample
    mask = torch.ones(size, length, dtype=torch.long)
    ids[0, 4:], mask[0, 4:] = 0, 0
    labels = torch.randint(0, 3, (size,), generator=generator)
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}


def by_definition(model, batch, label):
    """No code of the package: gradients of single samples, squared, averaged."""
    inputs = {name: value for name, value in batch.items() if name != "labels"}
    result = {name: torch.zeros_like(p, dtype=torch.float64) for name, p in model.named_parameters()}
    size = len(batch["labels"])
    for row in range(size):
        output = model(**{name: value[row : row + 1] for name, value in inputs.items()})
        logits = (output if isinstance(output, torch.Tensor) else output.logits)[0]
        probabilities = logits.softmax(-1).detach()
        weights = {
            "argmax": {int(logits.argmax()): 1.0},
            "true": {int(batch["labels"][row]): 1.0},
            "expectation": dict(enumerate(probabilities.tolist())),
        }[label]
        for k, weight in weights.items():
            gradients = torch.autograd.grad(
                logits.log_softmax(-1)[k], list(model.parameters()), retain_graph=True, allow_unused=True
            )
            for name, gradient in zip(result, gradients, strict=True):
                if gradient is not None:
                    result[name] += weight * gradient.double().square() / size
    return result


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    largest = max(float(value.max()) for value in expected.values())
    for name in expected:
        torch.testing.assert_close(
            found[name].double(), expected[name].double(), rtol=1e-5, atol=1e-8 * largest, msg=name
        )


@pytest.mark.parametrize("label", ["argmax", "true", "expectation"])
@pytest.mark.parametrize("way", ["auto", "hooks", "loop"])
def test_text_model_equals_the_definition(label, way):
    model = tiny_bert(1)
    assert unsupported(model) == []
    assert_same(
        diagonal_fisher(model, [text_batch()], label=label, way=way), by_definition(model, text_batch(), label)
    )
    assert all(parameter.requires_grad and parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize("name", ["resnet10t", "efficientnet_lite0", "mobilenetv3_small_050"])
def test_timm_models_equal_the_loop(name, caplog):
    torch.manual_seed(0)
    model = timm.create_model(name, num_classes=4).eval()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 2)
            module.weight.data.uniform_(0.5, 1.5)
    wrapped = Named(model)
    batch = {"pixel_values": torch.randn(3, 3, 32, 32), "labels": torch.tensor([0, 1, 2])}
    assert unsupported(wrapped) == []
    hooks = diagonal_fisher(wrapped, [batch], way="auto")
    assert "single samples" not in caplog.text
    assert_same_norm(hooks, diagonal_fisher(wrapped, [batch], way="loop"))


def assert_same_norm(found, expected):
    """Convolutions sum thousands of products in another order: 1e-5 of each tensor's norm."""
    for name in expected:
        assert (found[name] - expected[name]).norm() <= 1e-5 * expected[name].norm() + 1e-12, name


class Named(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, pixel_values):
        return self.inner(pixel_values)


class Odd(nn.Module):
    """A bare parameter, and a layer that runs twice."""

    def __init__(self, bare):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4)) if bare else None
        self.layer, self.head = nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x):
        x = x * self.scale if self.scale is not None else self.layer(self.layer(x).tanh())
        return self.head(self.layer(x).tanh())


@pytest.mark.parametrize("bare", [True, False])
def test_unknown_models_fall_back_to_the_loop(bare, caplog):
    torch.manual_seed(0)
    model = Odd(bare)
    batch = {"x": torch.randn(5, 4), "labels": torch.zeros(5, dtype=torch.long)}
    assert_same(diagonal_fisher(model, [batch]), by_definition(model, batch, "argmax"))
    assert "single samples" in caplog.text
    if not bare:
        with pytest.raises(ValueError, match="more than once"):
            diagonal_fisher(model, [batch], way="hooks")


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_equals_the_loop_and_only_what_is_not_served_goes_through_it(family, caplog):
    model, batch, served = make_family(family)
    state = list(model.state_dict())
    parts = [{name: value[start : start + 3] for name, value in batch.items()} for start in (0, 3)]
    assert_same_norm(diagonal_fisher(model, parts), diagonal_fisher(model, [batch], way="loop"))
    assert ("single samples" in caplog.text) is not served
    assert list(model.state_dict()) == state
    assert all(isinstance(p, nn.Parameter) and p.requires_grad and p.grad is None for p in model.parameters())


def test_a_batch_of_one_decides_nothing_about_the_others():
    model, batch, _ = make_family("vit", samples=5)
    parts = [{name: value[part] for name, value in batch.items()} for part in (slice(0, 1), slice(1, 5))]
    assert_same_norm(diagonal_fisher(model, parts), diagonal_fisher(model, [batch], way="loop"))


def test_frozen_weights_stay_out(caplog):
    model, batch, _ = make_family("vit")
    for name, parameter in model.named_parameters():
        parameter.requires_grad_("cls_token" not in name and "layers.0" not in name)
    found = diagonal_fisher(model, [batch])
    assert found.keys() == {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert_same_norm(found, diagonal_fisher(model, [batch], way="loop"))


def test_batching_does_not_matter():
    model, batch = tiny_bert(1), text_batch(8)
    halves = [{name: value[:4] for name, value in batch.items()}, {name: value[4:] for name, value in batch.items()}]
    assert_same(diagonal_fisher(model, halves), diagonal_fisher(model, [batch]))


def test_rows_are_shared_out_exactly_once_by_length():
    rows = [{"input_ids": [1] * (1 + i % 5), "n": i} for i in range(11)]
    batches = list(fisher_batches(rows, lambda part: part, batch_size=4))
    assert sorted(row["n"] for batch in batches for row in batch) == list(range(11))
    assert max(len(row["input_ids"]) for row in batches[0]) <= min(len(row["input_ids"]) for row in batches[-1])


def test_saved_fisher_has_mean_one(tmp_path):
    fisher = diagonal_fisher(tiny_bert(1), [text_batch()])
    save_fisher(fisher, tmp_path / "fisher.safetensors")
    loaded = load_fisher(tmp_path / "fisher.safetensors")
    values = torch.cat([value.flatten() for value in loaded.values()])
    assert values.mean() == pytest.approx(1.0, rel=1e-4)


def test_bad_input():
    model = tiny_bert(1)
    with pytest.raises(ValueError, match="expected label in"):
        diagonal_fisher(model, [text_batch()], label="sample")
    with pytest.raises(ValueError, match="no samples"):
        diagonal_fisher(model, [])
    with pytest.raises(ValueError, match="needs a column 'labels'"):
        diagonal_fisher(model, [{"input_ids": torch.ones(2, 3, dtype=torch.long)}], label="true")
    with pytest.raises(ValueError, match="no trainable parameter"):
        diagonal_fisher(tiny_bert(1).requires_grad_(False), [text_batch()])


def test_two_processes_give_the_same(tmp_path):
    run_in_two_processes(Path(__file__).with_name("fisher_script.py"), tmp_path / "fisher")
    save_fisher(diagonal_fisher(Bag(), fisher_batches(ROWS, pad, 3)), tmp_path / "one")
    for rank in (0, 1):
        assert_same(load_fisher(tmp_path / f"fisher{rank}"), load_fisher(tmp_path / "one"))
