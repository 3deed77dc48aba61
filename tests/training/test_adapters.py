"""PEFT: adapters on the new model, and an old model that is another adapter of the same backbone."""

import pytest
import torch
from training_kit import NAMES, bert, distance, texts, tokenizer, trainer, weights
from transformers import BertForSequenceClassification

import hf_pct

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


def test_a_saved_run_is_a_model_and_an_old_model(tmp_path):
    """A LoRA run saved by the trainer is a folder like any other: for predict, and as the next run's old model."""
    bert(seed=4).save_pretrained(tmp_path / "base")
    config = peft.LoraConfig(task_type="SEQ_CLS", r=2, target_modules=["query", "value"], init_lora_weights=False)
    base = BertForSequenceClassification.from_pretrained(tmp_path / "base")
    torch.manual_seed(1)
    run = trainer(tmp_path / "run", model=peft.get_peft_model(base, config), processing_class=tokenizer())
    run.train()
    run.save_model(str(tmp_path / "adapter"))
    assert not (tmp_path / "adapter" / "config.json").exists()
    table = hf_pct.predict(str(tmp_path / "adapter"), texts(tokenized=False), use_cache=False, progress=False)
    assert table.label_names == tuple(NAMES)
    alone = hf_pct.predict(run.model, texts(tokenized=False), processor=tokenizer(), use_cache=False, progress=False)
    assert table.logits == pytest.approx(alone.logits, abs=1e-4)
    held_out = texts(30, seed=5)
    following = trainer(tmp_path / "next", old_model=str(tmp_path / "adapter"), eval_dataset=held_out, ewc_weight=1.0)
    following.train()
    right = table_accuracy(tmp_path / "adapter", texts(30, seed=5, tokenized=False))
    assert following.evaluate()["eval_old_accuracy"] == pytest.approx(right)


def table_accuracy(folder, data):
    return hf_pct.predict(str(folder), data, use_cache=False, progress=False).accuracy


def test_an_old_adapter_is_known_by_all_that_its_answers_depend_on(tmp_path):
    def fingerprint(model):
        return trainer(tmp_path, model=model, old_model=None, old_adapter="old").source.old.reference.fingerprint()

    model = with_old_adapter()
    first = fingerprint(model)
    for name, value in model.named_parameters():
        if ".default." in name:
            value.data += 1.0  # the adapter in training is not asked
    assert fingerprint(model) == first
    model.base_model.model.bert.encoder.layer[0].intermediate.intermediate_act_fn = torch.nn.ReLU()
    replaced = fingerprint(model)
    model.base_model.model.bert.embeddings.position_ids += 1
    moved = fingerprint(model)
    model.base_model.model.bert.encoder.layer[0].attention.self.query.scaling["old"] *= 2
    assert len({first, replaced, moved, fingerprint(model)}) == 4
