"""Update a text classifier without breaking what the old one got right.

    accelerate launch run_text_update.py fd_lm.yaml --old_model ./intents-v1 --model_name_or_path ./intents-v1 \
        --train_file train.jsonl --validation_file test.jsonl --output_dir ./intents-v2

With `elodi.yaml` (or `--method elodi`) several members are trained first, into `--output_dir`/members, and then the
new model near their mean; `--spread_members` gives each process members of its own.

Trains, counts flips on the validation rows at every evaluation, and leaves the model, both models' predictions and the
flip report in `--output_dir`. Argument names are those of transformers' own examples; every flag may come from YAML.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from datasets import Dataset
from transformers import AutoModelForSequenceClassification, AutoTokenizer, DataCollatorWithPadding

from hf_pct.training.script import (
    DataArguments,
    UpdateArguments,
    cut_texts_at,
    label_list,
    label_names,
    parse_arguments,
    run_script,
    train_and_measure,
    update_trainer,
    with_label_ids,
)


@dataclass
class TextArguments(DataArguments):
    model_name_or_path: str = field(
        metadata={"help": "What the new model starts from: a Hub id or a folder."}, kw_only=True
    )
    text_column_name: str = field(default="text", metadata={"help": "Column with the text."})
    max_seq_length: int = field(default=128, metadata={"help": "Texts are cut at this many tokens."})


def prepare(data: TextArguments, args: UpdateArguments) -> tuple[Callable[[], Any], dict[str, Any], Dataset]:
    """What makes a new model, what a trainer needs beside it, and the validation rows as they were read."""
    train, held_out = data.load()
    old_names = label_list(args.old_model, args.old_revision)
    names = label_names(train, held_out, data.label_column_name, old_names)
    tokenizer = AutoTokenizer.from_pretrained(data.model_name_or_path)

    def new_model() -> Any:
        return AutoModelForSequenceClassification.from_pretrained(
            data.model_name_or_path,
            use_safetensors=True,
            ignore_mismatched_sizes=True,  # a head with other classes is made anew
            id2label=dict(enumerate(names)),
            label2id={name: index for index, name in enumerate(names)},
        )

    cut_texts_at(tokenizer, data.max_seq_length, new_model())

    def tokenize(batch: dict) -> dict:
        return dict(tokenizer(batch[data.text_column_name], truncation=True))

    with args.main_process_first():
        prepared = [
            with_label_ids(rows, data.label_column_name, names)
            .map(tokenize, batched=True, desc="Tokenizing")
            .select_columns([data.text_column_name, "labels", *tokenizer.model_input_names])
            for rows in (train, held_out)
        ]
    if args.reference_columns is None and data.text_column_name != "text":
        prepared = [rows.rename_column(data.text_column_name, "text") for rows in prepared]
    settings = {"train_dataset": prepared[0], "eval_dataset": prepared[1], "processing_class": tokenizer}
    return new_model, {**settings, "data_collator": DataCollatorWithPadding(tokenizer)}, held_out


def main() -> None:
    data, args = parse_arguments([TextArguments, UpdateArguments])
    new_model, settings, held_out = prepare(data, args)
    trainer = update_trainer(new_model, args, **settings)
    columns = {"input_column": data.text_column_name, "label_column": data.label_column_name}
    train_and_measure(trainer, settings["processing_class"], held_out, **columns)


if __name__ == "__main__":
    run_script(main)
