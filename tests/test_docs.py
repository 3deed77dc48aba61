"""What the README and the docs show is what the code takes: commands parse, rules load, examples print the truth."""

import ast
import doctest
import importlib
import json
import re
import runpy
import shlex
import shutil
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from tiny_models import INTENTS

from hf_pct import GateConfig
from hf_pct.cli import build_parser

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "examples" / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    """What stands between fences of a language; fences are taken in order, so that an end is never a beginning."""
    fences = re.finditer(r"^ *```(\w*)[^\n]*\n(.*?)^ *```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return [fence[2] for fence in fences if re.fullmatch(language, fence[1])]


def commands() -> list[str]:
    found = []
    for page in PAGES:
        for block in blocks(page, "(?:bash|sh|console)?"):
            lines = block.replace("\\\n", " ").splitlines()
            found += [line.split("  #")[0].strip() for line in lines if line.strip().startswith("hf-pct ")]
    return found


@pytest.mark.parametrize("command", sorted(set(commands())))
def test_every_command_parses(command):
    build_parser().parse_args(shlex.split(command, comments=True)[1:])


def script_commands() -> list[str]:
    """Every call of an example script in the docs; the page with a method of its own is run by that method's test."""
    found = []
    for page in (page for page in PAGES if page.name != "add_a_method.md"):
        for block in blocks(page, "(?:bash|sh|console)?"):
            for line in block.replace("\\\n", " ").splitlines():
                command = line.split("  #")[0].strip()
                if re.search(r"(?:python|accelerate launch)\b.* ?\S*(?:run_\w+|search)_update\.py ", command):
                    found.append(command)
    return sorted(set(found))


@pytest.mark.parametrize("command", script_commands())
def test_every_call_of_a_script_is_understood(command, monkeypatch):
    """Only the arguments are read; what a page leaves out as `...` is added."""
    import hf_pct.training.script as module

    words = shlex.split(command.replace("...", ""), comments=True)
    at = next(place for place, word in enumerate(words) if word.endswith("_update.py"))
    (script,) = (ROOT / "examples").glob(f"*/{Path(words[at]).name}")
    monkeypatch.chdir(script.parent if "/" not in words[at] else ROOT)
    parse, read = module.parse_arguments, []

    def only_read(classes, argv=None):
        words = [word for word in sys.argv[1:] if word]
        words += ["--model_name_or_path", "encoder", "--dataset_name", "rows"] if "..." in command else []
        read.append(parse(classes, words))
        raise SystemExit(0)

    monkeypatch.setattr(module, "parse_arguments", only_read)
    monkeypatch.setattr(sys, "argv", [str(script), *words[at + 1 :]])
    monkeypatch.syspath_prepend(str(script.parent))
    with pytest.raises(SystemExit) as end:
        runpy.run_path(str(script), run_name="__main__")
    assert end.value.code == 0
    assert read


def test_there_are_commands_to_parse():
    assert len(script_commands()) >= 8
    verbs = {command.split()[1] for command in commands()}
    assert {"compare", "merge", "page", "push", "verify"} <= verbs


def test_the_gate_of_the_readme_loads(tmp_path):
    (rules,) = (block for block in blocks(ROOT / "README.md", "yaml") if block.startswith("# gate.yaml"))
    (tmp_path / "gate.yaml").write_text(rules)
    config = GateConfig.from_yaml(tmp_path / "gate.yaml")
    assert config.max_nfr == 0.01
    assert len(config.rules()) == 4


def test_the_gate_is_documented_rule_by_rule():
    """The table of rules is what the config says of itself."""
    text = (ROOT / "docs" / "measuring.md").read_text(encoding="utf-8")
    assert [f"| `{rule.name}` | {rule.metadata['help']} |" for rule in fields(GateConfig)] == re.findall(
        r"^\| `(?:max|min|allow)_\w+` \| .* \|$", text, re.MULTILINE
    )


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) < 150


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_examples_are_python(page):
    for block in blocks(page, "python"):
        if ">>>" in block:
            parsed = doctest.DocTestParser().get_doctest(block, {}, page.name, page.name, 0)
            results = doctest.DocTestRunner().run(parsed)
            assert results.attempted
            assert not results.failed
        else:
            ast.parse(block.replace("(...,", "("))


PUBLIC = ("hf_pct", "hf_pct.training", "hf_pct.merging", "hf_pct.policies", "hf_pct.update")


def public_objects() -> dict[str, object]:
    """Every public name that is a class or a function, each once."""
    objects: dict[str, object] = {}
    for module in PUBLIC:
        loaded = importlib.import_module(module)
        for name in loaded.__all__:
            value = getattr(loaded, name)
            if callable(value) and all(value is not known for known in objects.values()):
                objects[f"{module}.{name}"] = value
    return objects


def run_examples(test: doctest.DocTest, names: dict[str, object]) -> None:
    test.globs.update(names)
    output: list[str] = []
    results = doctest.DocTestRunner().run(test, out=output.append)
    assert not results.failed, "".join(output)


@pytest.fixture(scope="session")
def example_files(tmp_path_factory, text_models, text_rows, tokenizer):
    """What examples may name: models v1 and v2, adapters of v1, and files of rows."""
    from peft import LoraConfig, TaskType, get_peft_model
    from transformers import AutoModelForSequenceClassification

    folder = tmp_path_factory.mktemp("examples")
    for name, source in zip(("v1", "v2"), text_models, strict=True):
        shutil.copytree(source, folder / name)
        base = AutoModelForSequenceClassification.from_pretrained(folder / "v1")
        lora = LoraConfig(TaskType.SEQ_CLS, r=2, target_modules=["query"])
        get_peft_model(base, lora).save_pretrained(folder / f"adapter-{name}")
    for name, rows in {"train": text_rows[:60], "dev": text_rows[60:90], "test": text_rows[90:]}.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.fixture
def names(example_files, tmp_path, monkeypatch, tokenizer):
    """The names that examples may use, in a folder of their own: they write where they are run."""
    from datasets import Dataset
    from transformers import AutoModelForSequenceClassification

    shutil.copytree(example_files, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")

    def rows(path: str) -> Dataset:
        loaded = [json.loads(line) for line in Path(path).read_text().splitlines()]
        texts = tokenizer([row["text"] for row in loaded])
        labels = [INTENTS.index(row["label"]) for row in loaded]
        return Dataset.from_dict({**texts, "label": labels})

    def new_model() -> object:
        return AutoModelForSequenceClassification.from_pretrained("v1")

    return {
        "Path": Path, "tokenizer": tokenizer, "model": new_model(), "new_model": new_model,
        "train": rows("train.jsonl"), "test": rows("test.jsonl"),
    }  # fmt: skip


def test_every_public_name_has_an_example_that_runs_as_it_stands(names, example_files):
    without = []
    for name, value in public_objects().items():
        shutil.copytree(example_files, Path.cwd(), dirs_exist_ok=True)  # another example may have written over a model
        shutil.rmtree("next", ignore_errors=True)
        examples = doctest.DocTestParser().get_doctest(vars(value).get("__doc__") or value.__doc__, {}, name, name, 0)
        if not examples.examples or "\n    Example:\n" not in f"\n{value.__doc__}":
            without.append(name)
        run_examples(examples, names)
    assert not without, f"no example under the heading Example: in the docstrings of {', '.join(without)}"


def test_the_reference_has_every_public_name_once():
    shown = re.findall(r"^::: (\S+)$", (ROOT / "docs" / "reference" / "python.md").read_text(encoding="utf-8"), re.M)
    assert len(set(shown)) == len(shown)
    homes = (path.rpartition(".") for path in shown)
    listed = [getattr(importlib.import_module(module), name) for module, _, name in homes]
    missing = [name for name, value in public_objects().items() if all(value is not entry for entry in listed)]
    assert not missing


def test_few_examples_are_skipped():
    """Those that need a Hub, which a test of that room runs, and one of a name that is not public."""
    files = (ROOT / "hf_pct").rglob("*.py")
    skipped = {file.stem for file in files if "doctest: +SKIP" in file.read_text(encoding="utf-8")}
    assert skipped == {"verify", "publish", "access", "features"}


def modules_with_examples() -> list[str]:
    package = ROOT / "hf_pct"
    files = [file for file in sorted(package.rglob("*.py")) if ">>>" in file.read_text(encoding="utf-8")]
    inside = [file.relative_to(ROOT).with_suffix("") for file in files if (file.parent / "__init__.py").exists()]
    return [".".join(path.parts).removesuffix(".__init__") for path in inside]


@pytest.mark.parametrize("module", modules_with_examples())
def test_examples_in_docstrings_print_what_they_say(module, names):
    tests = [test for test in doctest.DocTestFinder().find(importlib.import_module(module)) if test.examples]
    for test in tests:
        run_examples(test, names)


def test_links_within_the_project_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
