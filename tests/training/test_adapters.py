"""PEFT: adapters on the new model, and an old model that is another adapter of the same backbone."""

import pytest
import torch
from training_kit import bert, distance, texts, trainer, weights

peft = pytest.importorskip("peft")


def adapted(seed=1):
    torch.manual_seed(seed)
    config = peft.LoraConfig(task_type="SEQ_CLS", r=2, target_modules=["query", "value"], init_lora_weights=False)
    return peft.get_peft_model(bert(seed=4), config)


def with_old_adapter():
    """One backbone, an old adapter that has its own weights and head, and a fresh one to train."""
    model = adapted()
    torch.manual_seed(9)
    model.add_adapter(
        "old",
        peft.LoraConfig(task_type="SEQ_CLS", r=2, target_modules=["query", "value"], init_lora_weights=False),
    )
    for name, value in model.named_parameters():
        if ".old." in name and "classifier" in name:
            value.data = value.data + torch.randn_like(value)
    return model


@pytest.mark.parametrize("reference", ["live", "cached"])
def test_only_the_adapter_and_the_head_are_trained(tmp_path, reference):
    model = adapted()
    before = weights(model)
    run = trainer(tmp_path, model=model, reference=reference, eval_dataset=texts(10, seed=5), eval_strategy="epoch")
    run.train()
    moved = {name for name, value in weights(model).items() if not torch.equal(value, before[name])}
    assert moved
    assert all("lora_" in name or "modules_to_save" in name for name in moved)


def test_the_old_model_may_be_another_adapter_of_the_same_backbone(tmp_path):
    trained = []
    for reference in ("live", "cached"):
        model = with_old_adapter()
        before = weights(model)
        run = trainer(
            tmp_path, model=model, old_model=None, old_adapter="old", reference=reference, num_train_epochs=2,
            eval_dataset=texts(10, seed=5), eval_strategy="epoch",
        )  # fmt: skip
        run.train()
        after = weights(model)
        assert all(torch.equal(after[name], before[name]) for name in after if ".old." in name)
        assert model.active_adapter == "default"
        trained.append(after)
    assert distance(*trained) < 1e-6


def test_the_adapter_reference_is_the_model_with_that_adapter(tmp_path):
    model = with_old_adapter()
    run = trainer(tmp_path, model=model, old_model=None, old_adapter="old")
    batch = {"input_ids": torch.tensor([[2, 3, 4]]), "attention_mask": torch.ones(1, 3, dtype=torch.long)}
    before = {name: value.requires_grad for name, value in model.named_parameters()}
    seen = run.source.logits(batch)["old"]
    model.eval()
    with torch.no_grad():
        own = model(**batch).logits
        model.set_adapter("old")
        expected = model(**batch).logits
        model.set_adapter("default")
    torch.testing.assert_close(seen, expected)
    assert not torch.allclose(seen, own)
    run.source.logits(batch)
    assert {name: value.requires_grad for name, value in model.named_parameters()} == before
