"""Update an image classifier without breaking what the old one got right.

    accelerate launch run_image_update.py fd_lm.yaml --old_model ./v1 --timm_architecture resnet18 --image_size 32 \
        --train_file train.parquet --validation_file test.parquet --output_dir ./v2

Trains from scratch (`--timm_architecture`, with timm's own initial weights) or from a model (`--model_name_or_path`).
With `elodi.yaml` (or `--method elodi`) several members are trained first, and then the new model near their mean.
The old model, or the ensemble, sees the same augmented images as the new one; `--cached_views 4` computes its answers
to four fixed views of each image once instead. Leaves the model, both models' predictions and the flip report in
`--output_dir`.
"""

from dataclasses import dataclass, field
from typing import Any

import torch
from torchvision.transforms import v2
from transformers import AutoImageProcessor, AutoModelForImageClassification, set_seed

from hf_pct import fixed
from hf_pct.models.load import load_model
from hf_pct.models.load.timm_models import timm_classifier
from hf_pct.training import ELODITrainer, FocalDistillTrainer, PCTrainer
from hf_pct.training.script import (
    DataArguments,
    UpdateArguments,
    label_list,
    label_names,
    parse_arguments,
    run_script,
    train_and_measure,
    update_trainer,
    with_label_ids,
)


@dataclass
class ImageArguments(DataArguments):
    model_name_or_path: str | None = field(default=None, metadata={"help": "A Hub id or a folder to start from."})
    timm_architecture: str | None = field(default=None, metadata={"help": "A timm model to train from scratch."})
    image_size: int | None = field(default=None, metadata={"help": "Side of the images, with timm_architecture."})
    image_column_name: str = field(default="image", metadata={"help": "Column with the image."})
    crop_padding: int = field(default=4, metadata={"help": "Augmentation: pad by this much, crop at random."})
    horizontal_flip: bool = field(default=True, metadata={"help": "Augmentation: mirror half of the images."})
    lr_drop_every: int = field(default=0, metadata={"help": "Divide the learning rate by ten every so many epochs."})


class StepSchedule:
    """Before a trainer: the papers' schedule, which transformers does not have, a tenth of the rate every n epochs."""

    drop_every = 0

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
        trainer: Any = self
        if not self.drop_every or trainer.lr_scheduler is not None:
            return super().create_scheduler(num_training_steps, optimizer)  # type: ignore[misc]
        steps = max(round(num_training_steps / trainer.args.num_train_epochs * self.drop_every), 1)
        trainer.lr_scheduler = torch.optim.lr_scheduler.StepLR(optimizer or trainer.optimizer, steps, gamma=0.1)
        trainer._created_lr_scheduler = True
        return trainer.lr_scheduler


class StepFocal(StepSchedule, FocalDistillTrainer): ...


class StepMember(StepSchedule, PCTrainer): ...


class StepELODI(StepSchedule, ELODITrainer):
    member_trainer_class = StepMember


def main() -> None:
    data, args = parse_arguments([ImageArguments, UpdateArguments])
    args.remove_unused_columns = False  # the transform makes the columns
    train, held_out = data.load()
    old_names = label_list(args.old_model, args.old_revision)
    names = label_names(train, held_out, data.label_column_name, old_names)
    set_seed(args.seed)
    model, processor = new_model(data, names)  # for its processor; the trainer makes its own
    plain = load_model(model, processor=processor).task.transform  # what `hf-pct predict` will do too
    augment = augmentation(data)

    def transform(augmented: bool) -> Any:
        def apply(batch: dict) -> dict:
            images = [image.convert("RGB") for image in batch[data.image_column_name]]
            pixels = [plain(augment(image) if augmented else image) for image in images]
            return {"pixel_values": pixels, "labels": batch["labels"]}

        return apply

    StepSchedule.drop_every = data.lr_drop_every
    trainer = update_trainer(
        lambda: new_model(data, names)[0],
        args,
        StepFocal,
        StepELODI,
        train_dataset=with_label_ids(train, data.label_column_name, names).with_transform(transform(True)),
        eval_dataset=with_label_ids(held_out, data.label_column_name, names).with_transform(fixed(transform(False))),
        data_collator=fixed(collate),
        processing_class=processor,
    )
    columns = {"input_column": data.image_column_name, "label_column": data.label_column_name}
    train_and_measure(trainer, processor, held_out, **columns)


def new_model(data: ImageArguments, names: list[str]) -> tuple[Any, Any]:
    """The model to train and its image processor."""
    if (data.model_name_or_path is None) == (data.timm_architecture is None):
        raise ValueError("Expected exactly one of --model_name_or_path and --timm_architecture.")
    if data.timm_architecture is not None:
        return timm_classifier(data.timm_architecture, names, data.image_size)
    labels = {"id2label": dict(enumerate(names)), "label2id": {name: index for index, name in enumerate(names)}}
    model = AutoModelForImageClassification.from_pretrained(
        data.model_name_or_path, use_safetensors=True, ignore_mismatched_sizes=True, **labels
    )
    return model, AutoImageProcessor.from_pretrained(data.model_name_or_path)


def augmentation(data: ImageArguments) -> Any:
    """Random crops of the padded image, and mirror images: the usual augmentation of small pictures."""
    steps: list[Any] = [v2.RandomHorizontalFlip()] if data.horizontal_flip else []
    if not data.crop_padding:
        return v2.Compose(steps or [v2.Identity()])

    def crop(image: Any) -> Any:
        return v2.RandomCrop((image.height, image.width), padding=data.crop_padding, padding_mode="reflect")(image)

    return v2.Compose([v2.Lambda(crop), *steps])


def collate(rows: list[dict]) -> dict[str, torch.Tensor]:
    return {
        "pixel_values": torch.stack([row["pixel_values"] for row in rows]),
        "labels": torch.tensor([row["labels"] for row in rows]),
    }


if __name__ == "__main__":
    run_script(main)
