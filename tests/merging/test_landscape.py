import copy

import numpy as np
import pytest
import torch
from merging_kit import tiny_bert

from hf_pct.merging.landscape import Plane, landscape


@pytest.fixture
def three(old_model, new_models):
    return [model.state_dict() for model in (old_model, new_models[0], tiny_bert(7))]


def test_the_corners_are_the_models(three, old_model):
    plane = Plane.through(*three)
    live = copy.deepcopy(old_model)
    for name, state in zip(("old", "new", "target"), three, strict=True):
        plane.write(live, *plane.corners[name])
        for entry, value in live.state_dict().items():
            torch.testing.assert_close(value, state[entry], rtol=1e-4, atol=1e-5)


def test_distances_in_the_plane_are_distances_between_models(three):
    plane = Plane.through(*three)
    old, new, target = three
    for a, b, one, other in (("old", "new", old, new), ("old", "target", old, target), ("new", "target", new, target)):
        real = sum(float((one[n].double() - other[n].double()).square().sum()) for n in one) ** 0.5
        drawn = np.hypot(*np.subtract(plane.corners[a], plane.corners[b]))
        assert drawn == pytest.approx(real, rel=1e-5)


def test_maps(three, old_model):
    live = copy.deepcopy(old_model)
    ids = torch.randint(1, 50, (30, 6), generator=torch.Generator().manual_seed(0))

    def logits():
        with torch.no_grad():
            return live(input_ids=ids).logits.numpy()

    labels = logits().argmax(-1)
    plane = Plane.through(*three)
    found = landscape(plane, live, logits, labels, points=3, margin=0.0)
    origin = int(np.argmin(np.abs(found.x))), int(np.argmin(np.abs(found.y)))
    assert found.nfr.shape == (3, 3)
    if found.x[origin[0]] == 0 == found.y[origin[1]]:
        assert found.error[origin[1], origin[0]] == 0.0
    assert np.array_equal(found.nfr, found.error)  # the old model is always right here
    assert set(found.to_dict()) == {"x", "y", "loss", "error", "nfr", "corners"}


def test_no_plane(three):
    with pytest.raises(ValueError, match="on one line"):
        Plane.through(three[0], three[1], three[1])
    with pytest.raises(ValueError, match="on one line"):
        Plane.through(three[0], three[0], three[2])
    with pytest.raises(ValueError, match=r"only in the target model"):
        Plane.through(three[0], three[1], {**three[2], "more": torch.ones(1)})
