"""Models of other libraries, asked through `predict`; `make test-others` installs what is skipped here."""

import numpy as np
import pytest
import torch
import transformers as hf
from tiny_models import INTENTS, tiny_bert

from hf_pct import compare, predict

QUIET = {"progress": False, "use_cache": False}


class Logits(torch.nn.Module):
    """A classifier whose only output are its logits, as a graph has it."""

    def __init__(self, model):
        super().__init__()
        self.model = model.eval()

    def forward(self, input_ids, attention_mask):
        return self.model(input_ids=input_ids, attention_mask=attention_mask).logits


@pytest.mark.filterwarnings("ignore")
def test_onnx_from_a_function(tmp_path, tokenizer, text_dataset):
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    model, names = tiny_bert(), ("input_ids", "attention_mask")
    example = tokenizer(["turn on the light", "stop"], padding=True, return_tensors="pt")
    shape = {0: torch.export.Dim("rows"), 1: torch.export.Dim("length", max=32)}
    torch.onnx.export(
        Logits(model).eval(), tuple(example[name] for name in names), str(tmp_path / "model.onnx"), dynamo=True,
        input_names=names, dynamic_shapes=(shape, shape), verbose=False,
    )  # fmt: skip
    session = runtime.InferenceSession(str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"])

    def answer(texts):
        inputs = tokenizer(texts, padding=True, truncation=True, max_length=32, return_tensors="np")
        return session.run(None, {name: inputs[name].astype(np.int64) for name in names})[0]

    table = predict(answer, text_dataset, label_names=INTENTS, batch_size=7, **QUIET)
    direct = predict(model, text_dataset, processor=tokenizer, **QUIET)
    assert table.logits == pytest.approx(direct.logits, abs=1e-5)
    report = compare(direct, table)
    assert (report.counts.negative_flips, report.counts.positive_flips) == (0, 0)


@pytest.mark.parametrize("kind", ["names", "indices", "three of four"])
def test_setfit(tmp_path, tokenizer, text_dataset, kind):
    """Its head sorts the names that it is fitted on, and has no score for a class that it never saw."""
    setfit = pytest.importorskip("setfit")
    hf.BertModel(tiny_bert().config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    model = setfit.SetFitModel.from_pretrained(str(tmp_path), labels=INTENTS)
    seen = text_dataset.filter(lambda row: row["label"] != INTENTS[1]) if kind == "three of four" else text_dataset
    labels = list(seen["label"]) if kind == "names" else [INTENTS.index(name) for name in seen["label"]]
    model.model_head.fit(model.encode(list(seen["text"])), labels)
    table = predict(model, text_dataset, batch_size=7, **QUIET)
    texts = list(text_dataset["text"])
    assert [str(name) for name in table.predictions] == [str(name) for name in model.predict(texts)]
    assert np.exp(table.logits) == pytest.approx(model.predict_proba(texts, as_numpy=True), abs=1e-5)
