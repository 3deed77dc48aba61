"""The demo's image task: scikit-learn's handwritten digits, and a small timm model that is trained from nothing."""

from __future__ import annotations

import hashlib
import random
from typing import TYPE_CHECKING

from ..core.versions import install_command
from ..models.types import Processor

if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict
    from transformers import TimmWrapperForImageClassification

IMAGE_SIZE = 32
ARCHITECTURE = "test_resnet"  # timm's smallest ResNet: 373,658 weights in four blocks
NEWER_ARCHITECTURE = "test_efficientnet"  # 101,766 weights, and nothing in common with the other


def load_digits() -> Dataset:
    """1797 scans of handwritten digits with the columns `id, image, label`; 8 by 8 pixels, enlarged to 32, RGB."""
    from datasets import ClassLabel, Dataset, Features, Image, Value
    from PIL import Image as Pictures

    try:
        from sklearn.datasets import load_digits as load
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "scikit-learn is not installed; the handwritten digits come from it. "
            f"Install the demo's packages with: {install_command('demo')}",
            name=error.name,
        ) from error
    digits = load()
    pixels = (digits.images * (255 / 16)).round().astype("uint8")
    columns = {
        "id": [hashlib.sha256(picture.tobytes()).hexdigest()[:12] for picture in pixels],
        "image": [
            Pictures.fromarray(picture).resize((IMAGE_SIZE, IMAGE_SIZE), Pictures.Resampling.BICUBIC).convert("RGB")
            for picture in pixels
        ],
        "label": digits.target.tolist(),
    }
    names = [str(digit) for digit in digits.target_names]
    return Dataset.from_dict(
        columns, features=Features({"id": Value("string"), "image": Image(), "label": ClassLabel(names=names)})
    )


def digit_splits(old_size: int = 100, new_size: int = 150, test_size: int = 900, seed: int = 0) -> DatasetDict:
    """`old_train`, `new_train` (all of `old_train`, and more) and `test`, drawn without replacement."""
    from datasets import DatasetDict

    digits = load_digits()
    if not (1 <= old_size <= new_size and test_size >= 1 and new_size + test_size <= len(digits)):
        raise ValueError(
            f"These splits cannot be made: old_size {old_size}, new_size {new_size}, test_size {test_size}. "
            f"Expected 1 <= old_size <= new_size and new_size + test_size <= {len(digits)}, the number of digits."
        )
    order = random.Random(seed).sample(range(len(digits)), len(digits))
    rows = {"old_train": order[:old_size], "new_train": order[:new_size], "test": order[len(order) - test_size :]}
    return DatasetDict({part: digits.select(indices) for part, indices in rows.items()})


def new_digit_model(
    seed: int = 0, architecture: str = ARCHITECTURE
) -> tuple[TimmWrapperForImageClassification, Processor]:
    """A fresh model for the ten digits with timm's own initial weights, and its image processor.

    The config says how pictures are prepared, so that `AutoImageProcessor` works on the folder that it is saved to.
    """
    import timm
    import torch
    from transformers import TimmWrapperConfig, TimmWrapperForImageClassification, TimmWrapperImageProcessor

    names = [str(digit) for digit in range(10)]
    config = TimmWrapperConfig(
        architecture=architecture,
        id2label=dict(enumerate(names)),
        label2id={name: index for index, name in enumerate(names)},
        pretrained_cfg={
            "input_size": (3, IMAGE_SIZE, IMAGE_SIZE),
            "mean": (0.5, 0.5, 0.5),
            "std": (0.5, 0.5, 0.5),
            "crop_pct": 1.0,
            "interpolation": "bicubic",
        },
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = TimmWrapperForImageClassification(config)
        # The wrapper replaces timm's initial weights by small random ones, from which a deep network learns poorly.
        fresh = timm.create_model(architecture, num_classes=len(names))
    model.timm_model.load_state_dict(fresh.state_dict())
    return model, TimmWrapperImageProcessor(config.pretrained_cfg, architecture=architecture)
