"""What passes between models, data and trainers, by name. Only type checkers read the imports."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    import datasets
    import torch
    from transformers import BaseImageProcessor, FeatureExtractionMixin, PreTrainedTokenizerBase
    from transformers.utils import ModelOutput

# one row of a dataset and one batch of inputs: lists, arrays, tensors or images by the name of their column
Row: TypeAlias = Mapping[str, Any]
Inputs: TypeAlias = Mapping[str, Any]
Collate: TypeAlias = Callable[[list[Any]], Inputs]

# rows in any of the forms that predict, the trainers and the merger take
RowSource: TypeAlias = "datasets.Dataset | datasets.IterableDataset | torch.utils.data.Dataset"

# a name on the Hub, a folder, a network, or anything that answers rows: a pipeline, an estimator, a function
ModelSource: TypeAlias = "str | os.PathLike | torch.nn.Module | Callable[..., object]"
# what a network returns
Outputs: TypeAlias = "ModelOutput | tuple[torch.Tensor, ...] | torch.Tensor"

# what makes inputs of raw text, images or sound; arguments take the name or the folder of one as well
Processor: TypeAlias = "PreTrainedTokenizerBase | BaseImageProcessor | FeatureExtractionMixin"


class SavesItself(Protocol):
    """A model, a processor or an ensemble: it writes all its files into a folder."""

    def save_pretrained(self, folder: str | Path, /) -> object:
        """Write the files."""
