"""What test_reference_caches.py runs in bf16: the old model's answers cached and live, in two precisions, as JSON."""

import json
import sys
from contextlib import nullcontext
from pathlib import Path

import torch
from training_kit import bert, texts, tokenizer, trainer

from hf_pct import predict


def main(folder: Path) -> None:
    data, old = texts(16), bert(seed=2)  # one batch, so that live and cached round alike
    seen: dict[str, list] = {"tables": [], "cached": [], "live": [], "predicted": []}
    for bf16 in (False, True, False):
        logits = {}
        for reference in ("cached", "live"):
            run = trainer(folder, train=data, old_model=old, bf16=bf16, reference=reference)
            rows = [run.source.rows(data, training=True)[index] for index in range(len(data))]
            kept = [{key: value for key, value in row.items() if key not in ("text", "label")} for row in rows]
            batch = run._prepare_inputs(run.data_collator(kept))
            logits[reference] = run.source.logits(batch)["old"].float().tolist()
            seen[reference].append(logits[reference])
        seen["tables"].append(len(list((folder / "cache").glob("*.safetensors"))))
        with torch.autocast("cpu", torch.bfloat16) if bf16 else nullcontext():
            predict(old, data, processor=tokenizer(), progress=False, cache_dir=folder)
        seen["predicted"].append(len(list((folder / "predictions").glob("*.safetensors"))))
    print(json.dumps(seen))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
