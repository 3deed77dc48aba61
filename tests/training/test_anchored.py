"""Weights held near the old model's: each anchor against its definition, and rows of added classes left alone."""

import pytest
import torch
import transformers
from training_kit import NAMES, bert, distance, images, roberta, texts, timm_model, trainer, weights

from hf_pct.merging.interpolate import scale_fisher
from hf_pct.methods.mixed_layers import Mixout
from hf_pct.models.fisher.diagonal import diagonal_fisher
from hf_pct.training.anchors.old_weights import OldWeights
from hf_pct.training.anchors.penalties import Anchor
from hf_pct.training.references.spec import ModelReference

NUDGE = 0.05


def moved(model, by=NUDGE):
    """A copy of a model with every weight moved a little."""
    other = bert(names=list(model.config.id2label.values()))
    other.load_state_dict(model.state_dict())
    torch.manual_seed(3)
    for value in other.parameters():
        value.data += by * torch.randn_like(value)
    return other


def gradients(tmp_path, model, old, **settings):
    """What one step's `.grad` holds beyond cross-entropy: weights stand still at a learning rate of 0."""
    found = []
    for own in (settings, {}):
        start = bert(names=list(model.config.id2label.values()))
        start.load_state_dict(model.state_dict())
        run = trainer(
            tmp_path, model=start, old_model=old, method="none", learning_rate=0.0, max_steps=1, max_grad_norm=0.0,
            train=texts(16), **own,
        )  # fmt: skip
        grads = {}

        def keep(anchors=run.anchors, plain=run.anchors.decay, start=start, grads=grads):
            def decay(optimizer):
                grads.update({name: value.grad.clone() for name, value in start.named_parameters()})
                plain(optimizer)

            anchors.decay = decay

        keep()
        run.train()
        found.append((grads, run))
    (with_anchor, run), (without, _) = found
    return {name: with_anchor[name] - without[name] for name in without}, run


def test_l2_sp_pulls_by_its_weight_times_the_difference(tmp_path):
    old = bert(seed=2)
    new = moved(old)
    extra, run = gradients(tmp_path, new, old, l2_sp_weight=0.7)
    difference = {name: value - old.state_dict()[name] for name, value in new.named_parameters()}
    for name, value in extra.items():
        torch.testing.assert_close(value, 0.7 * difference[name], atol=1e-6, rtol=1e-4)
    expected = 0.35 * sum(value.square().sum() for value in difference.values())
    assert run.anchors.values()["l2_sp"].item() == pytest.approx(expected.item(), rel=1e-5)


def test_ewc_pulls_by_twice_the_fisher(tmp_path):
    old = bert(seed=2)
    new, data = moved(old), texts(16)
    extra, run = gradients(tmp_path, new, old, ewc_weight=0.3)
    rows = [{key: torch.tensor([row[key]]) for key in ("input_ids", "attention_mask")} for row in data]
    old.requires_grad_(True)
    fisher = scale_fisher(diagonal_fisher(old, rows, way="loop"))
    for name, value in extra.items():
        expected = 2 * 0.3 * fisher[name] * (dict(new.named_parameters())[name] - old.state_dict()[name])
        torch.testing.assert_close(value, expected.detach(), atol=2e-5, rtol=1e-3)
    assert run.anchors.values()["ewc"] > 0


def test_words_that_never_occur_are_skipped_and_nothing_changes():
    parameter = torch.nn.Parameter(torch.randn(10, 3))
    old, strength = torch.randn(10, 3), torch.rand(10, 3)
    strength[3:] = 0
    anchor = Anchor(parameter, old, strength=strength)
    assert anchor.rows.tolist() == [0, 1, 2]
    value = anchor.add_gradient(1.0)
    torch.testing.assert_close(parameter.grad, (strength * (parameter - old)).detach())
    torch.testing.assert_close(value, 0.5 * (strength * (parameter - old).square()).sum().detach())


def test_large_tensors_are_taken_in_blocks():
    parameter = torch.nn.Parameter(torch.randn(300, 500))
    old, strength = torch.randn(300, 500), torch.rand(300, 500) + 0.1
    value = Anchor(parameter, old, strength=strength).add_gradient(2.0)
    torch.testing.assert_close(parameter.grad, (2 * strength * (parameter - old)).detach())
    expected = 0.5 * (strength * (parameter - old).square()).sum().detach()
    torch.testing.assert_close(value, expected, rtol=1e-4, atol=0)


def test_penalties_do_not_depend_on_how_the_batch_is_split(tmp_path):
    trained = []
    for size, steps in ((16, 1), (4, 4)):
        run = trainer(
            tmp_path, model=moved(bert(seed=2)), per_device_train_batch_size=size, gradient_accumulation_steps=steps,
            l2_sp_weight=0.1, ewc_weight=0.1, prior_weight_decay=0.1, optim="sgd", learning_rate=0.05,
        )  # fmt: skip
        run.train()
        trained.append(run.model)
    assert distance(*trained) < 1e-5


def test_prior_weight_decay_goes_the_stated_way_after_each_step(tmp_path):
    old = bert(seed=2)
    new = moved(old)
    settings = {"method": "none", "max_steps": 1, "learning_rate": 0.01, "optim": "sgd", "train": texts(16)}
    plain = trainer(tmp_path, model=moved(old), old_model=old, **settings)
    plain.train()
    decayed = trainer(tmp_path, model=new, old_model=old, prior_weight_decay=20.0, **settings)
    decayed.train()
    for name, value in decayed.model.named_parameters():
        after = dict(plain.model.named_parameters())[name]
        torch.testing.assert_close(value, after - 0.01 * 20 * (after - old.state_dict()[name]), atol=1e-6, rtol=1e-5)


def test_a_decay_beyond_one_stops_at_the_old_weights(tmp_path):
    old = bert(seed=2)
    run = trainer(tmp_path, model=moved(old), old_model=old, method="none", prior_weight_decay=1e6)
    run.train()
    assert distance(run.model, old) == 0


def test_mixout_mixes_with_the_stated_expectation_and_leaves_no_trace(tmp_path):
    old, new = bert(seed=2), moved(bert(seed=2), by=0.5)
    layer, kept = new.bert.encoder.layer[0].output.dense, old.bert.encoder.layer[0].output.dense
    layer.bias.data.zero_()
    kept.bias.data.zero_()
    anchor = OldWeights.of(ModelReference(old, NAMES, "old"), new)
    before, names = weights(new), set(new.state_dict())
    torch.manual_seed(0)
    mixout = Mixout(new, anchor, 0.3)
    assert set(new.state_dict()) == names
    identity = torch.eye(layer.in_features)
    layer.train()
    draws = torch.stack([layer(identity).T.detach() for _ in range(4000)])
    torch.testing.assert_close(draws.mean(0), layer.weight.data, atol=0.08, rtol=0)
    columns = (draws[0] - kept.weight).abs().amax(0) < 1e-5  # an input is mixed for all outputs or for none
    scaled = kept.weight + (layer.weight - kept.weight) / 0.7
    torch.testing.assert_close(draws[0][:, ~columns], scaled[:, ~columns], atol=1e-5, rtol=1e-4)
    assert 0 < columns.sum() < len(columns)
    mixout.remove()
    assert "forward" not in vars(layer)
    assert distance(before, new) == 0


def test_mixout_trains_without_dropout_and_gives_it_back(tmp_path):
    model = bert(seed=1, dropout=0.2)
    run = trainer(tmp_path, model=model, old_model=bert(seed=2), method="none", mixout=0.5)
    seen = []
    plain = run.compute_loss
    run.compute_loss = lambda *args, **kwargs: (seen.append(model.dropout.p), plain(*args, **kwargs))[1]
    run.train()
    assert set(seen) == {0.0}
    assert model.dropout.p == 0.2


def test_mixout_on_an_image_model(tmp_path):
    run = trainer(
        tmp_path, model=timm_model(seed=1), old_model=timm_model(seed=1), train=images(), method="none", mixout=0.5
    )
    before = weights(run.model)
    run.train()
    assert distance(before, run.model) > 0


@pytest.mark.parametrize("setting", ["l2_sp_weight", "ewc_weight", "prior_weight_decay", "mixout"])
def test_rows_of_added_classes_are_left_out_and_the_others_found_by_name(tmp_path, setting):
    names = ["new one", *reversed(NAMES)]
    old, new = bert(seed=2), bert(seed=1, names=names)
    strong = {"mixout": 0.9, "prior_weight_decay": 50.0}.get(setting, 50.0)
    trained = []
    for value in (strong, 0.0):
        start = bert(seed=1, names=names)
        run = trainer(
            tmp_path, model=start, old_model=old, train=texts(48, classes=5), method="none", num_train_epochs=2,
            learning_rate=0.01, **{setting: value},
        )  # fmt: skip
        run.train()
        trained.append(start.classifier.weight.detach())
    held, free = trained
    target = old.classifier.weight.flip(0)
    if setting != "mixout":
        assert (held[1:] - target).norm() < (free[1:] - target).norm()
    anchor = OldWeights.of(ModelReference(old, NAMES, "old"), new)
    value, rows = anchor.beside("classifier.weight", new.classifier.weight)
    assert rows.tolist() == [1, 2, 3, 4]
    assert torch.equal(value, target)


def test_anchors_and_distillation_work_together(tmp_path):
    run = trainer(tmp_path, model=moved(bert(seed=2)), ewc_weight=0.1, l2_sp_weight=0.1, mixout=0.1, fisher_samples=8)
    run.train()
    logged = next(entry for entry in run.state.log_history if entry.get("step") == 2)
    assert {"loss_ce", "loss_distillation", "loss_ewc+l2_sp"} <= logged.keys()


def test_another_architecture_cannot_be_an_anchor(tmp_path):
    run = trainer(tmp_path, old_model=roberta(seed=2), l2_sp_weight=0.1)
    with pytest.raises(ValueError, match=r"another architecture.*\n  bert.*the old model has no such tensor"):
        run.train()


@pytest.mark.parametrize("kind", ["timm", "convnext"])
def test_mixout_mixes_layer_norms_that_read_channels_first(kind):
    """They are subclasses of `nn.LayerNorm` with a computation of their own, which they keep."""
    from timm.layers import LayerNorm2d
    from transformers.models.convnext.modeling_convnext import ConvNextLayerNorm

    torch.manual_seed(0)
    norm = LayerNorm2d(6) if kind == "timm" else ConvNextLayerNorm(6, data_format="channels_first")
    model = torch.nn.Sequential(norm)
    pixels = torch.randn(2, 6, 4, 4)
    norm.weight.data.normal_()
    norm.bias.data.normal_()

    class Old:
        def __init__(self):
            self.weights = {"0.weight": torch.full((6,), 3.0), "0.bias": torch.full((6,), -2.0)}

        def beside(self, name, parameter):
            return self.weights[name], None

    plain = model(pixels)
    mixout = Mixout(model, Old(), 0.5)
    model.eval()
    torch.testing.assert_close(model(pixels), plain)
    model.train()
    mean = torch.stack([model(pixels) for _ in range(4000)]).mean(0)
    torch.testing.assert_close(mean, plain, rtol=0.2, atol=0.3)  # the expectation of a mixed weight is the weight
    with torch.no_grad():
        assert not torch.allclose(model(pixels), plain)
    model(pixels).sum().backward()
    assert norm.weight.grad is not None
    mixout.remove()
    torch.testing.assert_close(model(pixels), plain)


class Held:
    """Old weights of a model whose tensors are all there."""

    def __init__(self, weights):
        self.weights = weights

    def beside(self, name, parameter):
        return self.weights[name], None


SHAPES = {
    "GPT2": {"n_embd": 8, "n_layer": 1, "n_head": 2},
    "Llama": {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 12},
}


@pytest.mark.parametrize("family", SHAPES)
def test_mixout_mixes_every_layer_of_a_decoder(family):
    """GPT-2's linear layers are no `nn.Linear`, and Llama's norms no `nn.RMSNorm`."""
    config = getattr(transformers, f"{family}Config")(vocab_size=20, pad_token_id=0, num_labels=3, **SHAPES[family])
    model = getattr(transformers, f"{family}ForSequenceClassification")(config)
    mixout = Mixout(model, Held(weights(model)), 0.5)
    layers = {name: module for name, module in model.named_modules() if "weight" in module._parameters}
    assert [name for name, module in layers.items() if "forward" not in vars(module)] == []
    model.train()(torch.tensor([[1, 2, 3], [4, 5, 6]])).logits.sum().backward()
    mixout.remove()
    assert not any("forward" in vars(module) for module in layers.values())


def test_mixout_draws_over_the_inputs_of_a_layer_whichever_way_its_weights_lie():
    torch.manual_seed(0)
    for layer in (torch.nn.Linear(40, 3), transformers.pytorch_utils.Conv1D(3, 40)):
        model = torch.nn.Sequential(layer)
        mixout = Mixout(model, Held({"0.weight": torch.full_like(layer.weight, 7.0), "0.bias": layer.bias}), 0.5)
        mixed = model.train()(torch.eye(40)).detach() - layer.bias  # one row per input
        old = mixed.sub(7.0).abs().lt(1e-5)
        assert old.all(1).eq(old.any(1)).all()
        assert 5 < old.all(1).sum() < 35
        mixout.remove()
