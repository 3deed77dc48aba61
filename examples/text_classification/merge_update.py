"""Fine-tune the old model on more data, merge the result back toward it, and write the model that keeps the promise.

    accelerate launch merge_update.py --old_model ./intents-v1 --train_file train.jsonl --validation_file dev.jsonl \
        --output_dir ./intents-v2 --num_train_epochs 6 --learning_rate 6e-5 --margin 0.005

With `--new_models ./a ./b` nothing is trained: these are merged (several of them with `--method soup`). `--output_dir`
gets the merged model, its tokenizer, `pct_merge.json` with the whole curve, and the flip report against the old model.
"""

from dataclasses import dataclass, field
from pathlib import Path

from transformers import DataCollatorWithPadding, HfArgumentParser

from hf_pct.core.files import output_problems
from hf_pct.flips.compare import compare
from hf_pct.flips.comparison_files import write_comparison
from hf_pct.merging.arguments import BCWIArguments
from hf_pct.merging.merger import BCWIMerger
from hf_pct.models.data import load_data
from hf_pct.models.load import label_names_of, load_model
from hf_pct.training.script import cut_texts_at, run_script


@dataclass
class DataArguments:
    old_model: str = field(metadata={"help": "The model in service: a Hub id or a folder with safetensors weights."})
    train_file: str = field(metadata={"help": "Old and new training rows together: parquet, CSV or JSON lines."})
    validation_file: str = field(metadata={"help": "Development rows: alpha is chosen on them."})
    new_models: list[str] | None = field(default=None, metadata={"help": "Merge these instead of training one."})
    text_column_name: str = field(default="text", metadata={"help": "Column with the text."})
    label_column_name: str = field(default="label", metadata={"help": "Column with the name of the class."})
    max_seq_length: int = field(default=128, metadata={"help": "Texts are cut at this many tokens."})


def main() -> None:
    data, args = HfArgumentParser([DataArguments, BCWIArguments]).parse_args_into_dataclasses()
    problems = output_problems(Path(args.output_dir))
    if problems:  # before the work, not after it
        raise SystemExit("; ".join(problems))
    train, held_out = load_data(data.train_file), load_data(data.validation_file)
    loaded = load_model(data.old_model)
    old, tokenizer = loaded.model, loaded.processor
    news = [load_model(name).model for name in data.new_models or ()]
    names = list(label_names_of(news[0] if news else old))
    if not news:  # old classes keep their place, added ones follow
        names += sorted({str(name) for name in train[data.label_column_name]} - set(names))
    number = {name: index for index, name in enumerate(names)}
    unknown = sorted({str(name) for rows in (train, held_out) for name in rows[data.label_column_name]} - set(names))
    if unknown:
        raise ValueError(f"The rows have classes that no model knows: {', '.join(unknown[:5])}.")
    cut_texts_at(tokenizer, data.max_seq_length, old)

    def prepare(batch: dict) -> dict:
        tokens = tokenizer(batch[data.text_column_name], truncation=True)
        return {**tokens, "labels": [number[str(name)] for name in batch[data.label_column_name]]}

    options = {"batched": True, "remove_columns": [data.label_column_name], "desc": "Tokenizing"}
    with args.main_process_first():
        train, held_out = train.map(prepare, **options), held_out.map(prepare, **options)
    merger = BCWIMerger(
        old,
        news or None,
        args,
        new_label_names=names,
        train_dataset=train,
        eval_dataset=held_out,
        data_collator=DataCollatorWithPadding(tokenizer),
        processing_class=tokenizer,
    )
    if not news:
        merger.train()
    sweep = merger.sweep()
    selection = merger.merge()
    folder = merger.save_merged(args.output_dir)
    before, after = merger.predictions(1.0), merger.predictions(selection.alpha)
    if merger.is_world_process_zero():
        report = compare(before, after)
        write_comparison(Path(folder), report, before, after, True)
        print(sweep.to_markdown())
        print(report.to_text())
        print(f"alpha {selection.alpha}: {selection.reason}\n{selection.promise}\nwritten to {folder}")


if __name__ == "__main__":
    run_script(main)
