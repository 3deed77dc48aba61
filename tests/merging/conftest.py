"""The tiny models and their folders, built once a session."""

import pytest
from merging_kit import nudged, tiny_bert


@pytest.fixture(scope="session")
def old_model():
    return tiny_bert(1)


@pytest.fixture(scope="session")
def new_models(old_model):
    return [nudged(old_model, seed) for seed in (2, 3, 4)]


@pytest.fixture(scope="session")
def folders(tmp_path_factory, old_model, new_models):
    """`old`, `new` and `new2` in one file, `sharded_old` and `sharded_new` in several."""
    root = tmp_path_factory.mktemp("models")
    for name, model in (("old", old_model), ("new", new_models[0]), ("new2", new_models[1])):
        model.save_pretrained(root / name)
    old_model.save_pretrained(root / "sharded_old", max_shard_size="3KB")
    new_models[0].save_pretrained(root / "sharded_new", max_shard_size="5KB")
    return root
