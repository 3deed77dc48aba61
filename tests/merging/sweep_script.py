"""A sweep of two tiny models, as one process of several or alone."""

import json
import sys

from datasets import Dataset
from merging_kit import nudged, tiny_bert

from hf_pct.merging.arguments import BCWIArguments
from hf_pct.merging.merger import BCWIMerger


def sweep_once(folder):
    """The sweep's table and the sum of a Fisher entry."""
    ids = [[1 + (i * 7 + j) % 49 for j in range(6)] for i in range(37)]
    rows = Dataset.from_dict({"input_ids": ids, "labels": [i % 3 for i in range(37)]})
    options = {"use_cpu": True, "report_to": "none", "disable_tqdm": True}
    settings = BCWIArguments(str(folder), method="fisher", alphas=[0.5], **options)
    merger = BCWIMerger(tiny_bert(1), [nudged(tiny_bert(1), 2)], settings, eval_dataset=rows)
    return merger.sweep().table(), float(merger.sides.fisher["classifier.weight"].sum())


if __name__ == "__main__":
    print("TABLE" + json.dumps(sweep_once(sys.argv[1])))
