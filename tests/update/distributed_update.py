"""One update on two processes: called by torchrun with the folders of the test."""

import sys

from two_processes import end_together

from hf_pct.update import Contract, update

if __name__ == "__main__":
    old, train, dev, output = sys.argv[1:]
    result = update(
        old, train, dev, contract=Contract(margin=0.05), budget=2, output_dir=output, progress=False,
        training={"num_train_epochs": 1, "learning_rate": 1e-3, "per_device_train_batch_size": 8},
    )  # fmt: skip
    print(f"chose {result.shipped.candidate} at {result.shipped.alpha:g}", flush=True)
    end_together()
