"""The estimate against what a trainer really holds after a step."""

import pytest
import torch
from training_kit import arguments, bert, elodi, texts, trainer

from hf_pct.training import ELODIArguments
from hf_pct.training.memory import estimate_memory


def size_of(tensors):
    return sum(value.numel() * value.element_size() for value in tensors)


def held(run):
    """Bytes of the optimizer's state that grows with the model, and of the models that references hold."""
    states = [value for state in run.optimizer.state.values() for value in state.values() if torch.is_tensor(value)]
    references = [part._reference for part in run.source.parts.values() if part._reference is not None]
    return {
        "weights": size_of(run.model.parameters()),
        "optimizer": size_of(value for value in states if value.numel() > 1),
        "references": sum(size_of(reference.model.parameters()) for reference in references),
    }


SETTINGS = {
    "live": {"reference": "live"},
    "none": {"method": "none"},
    "sgd": {"method": "none", "optim": "sgd"},
    "momentum": {"method": "none", "optim": "sgd", "optim_args": "momentum=0.9"},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_the_estimate_is_what_a_run_holds(tmp_path, name):
    run = trainer(tmp_path, max_steps=1, **SETTINGS[name])
    run.train()
    if name == "momentum" and not run.optimizer.param_groups[0]["momentum"]:
        pytest.skip("this transformers does not pass optim_args to SGD")
    count = sum(value.numel() for value in run.model.parameters())
    found = estimate_memory(run.args, count, live=run.source.live).to_dict()
    for part, size in held(run).items():
        if part == "references" and name != "live":  # there for flips alone, and not while it is trained
            continue
        # BERT's pooler and embeddings without a gradient have no state; the tiny one has a few such numbers
        assert found[part] == pytest.approx(size, rel=0.05)


def test_live_members_and_a_sparse_table(tmp_path):
    run = elodi(tmp_path, max_steps=1, reference="live", num_members=3)
    run.train()
    count = sum(value.numel() for value in run.model.parameters())
    assert estimate_memory(run.args, count, live=True).references == held(run)["references"] == 3 * 4 * count
    cached = arguments(tmp_path, ELODIArguments, top_k=10, num_members=3)
    estimate = estimate_memory(cached, 100, rows=1000, classes=1000)
    assert estimate.references == 0
    assert estimate.table == 1000 * 10 * 8
    dense = arguments(tmp_path, ELODIArguments, top_k=None)
    assert estimate_memory(dense, 100, rows=1000, classes=1000).table == 50 * estimate.table


def test_a_cached_table_is_as_large_as_estimated(tmp_path):
    data = texts(48)
    run = trainer(tmp_path, train=data)
    run.train()
    (path,) = (tmp_path / "cache").glob("*.safetensors")
    estimate = estimate_memory(run.args, 1, rows=48, classes=4)
    header = 8 + int.from_bytes(path.read_bytes()[:8], "little")
    assert path.stat().st_size - estimate.table == header


@pytest.mark.parametrize(("settings", "copies"), [({"ewc_weight": 1.0}, 2), ({"l2_sp_weight": 1.0}, 1)])
def test_anchors_hold_the_old_weights(tmp_path, settings, copies):
    run = trainer(tmp_path, method="none", max_steps=1, old_model=bert(seed=2), **settings)
    run.train()
    count = sum(value.numel() for value in run.model.parameters())
    kept = run.anchors.old
    found = size_of(kept.weights.values()) + size_of(kept.strength.values())
    assert estimate_memory(run.args, count).anchors == found == copies * 4 * count
