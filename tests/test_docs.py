"""What the README and the docs show is what the code takes: commands parse, rules load, examples print the truth."""

import ast
import doctest
import importlib
import re
import shlex
from pathlib import Path

import pytest

from hf_pct import GateConfig
from hf_pct.cli import build_parser

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "examples" / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


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


def test_there_are_commands_to_parse():
    verbs = {command.split()[1] for command in commands()}
    assert {"compare", "merge", "page", "push", "verify"} <= verbs


def test_the_gate_of_the_readme_loads(tmp_path):
    (rules,) = (block for block in blocks(ROOT / "README.md", "yaml") if block.startswith("# gate.yaml"))
    (tmp_path / "gate.yaml").write_text(rules)
    config = GateConfig.from_yaml(tmp_path / "gate.yaml")
    assert config.max_nfr == 0.01
    assert len(config.rules()) == 4


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


def public_objects() -> dict[str, object]:
    """Every public name that is a class or a function, each once."""
    objects: dict[str, object] = {}
    for module in ("hf_pct", "hf_pct.training", "hf_pct.merging", "hf_pct.policies"):
        loaded = importlib.import_module(module)
        for name in loaded.__all__:
            value = getattr(loaded, name)
            if callable(value) and all(value is not known for known in objects.values()):
                objects[f"{module}.{name}"] = value
    return objects


def run_examples(test: doctest.DocTest) -> None:
    output: list[str] = []
    results = doctest.DocTestRunner().run(test, out=output.append)
    assert not results.failed, "".join(output)


@pytest.fixture
def empty_folder(tmp_path, monkeypatch):
    """Examples write where they are run."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("empty_folder")
def test_every_public_name_has_an_example_that_runs_as_it_stands():
    without = []
    for name, value in public_objects().items():
        examples = doctest.DocTestParser().get_doctest(vars(value).get("__doc__") or value.__doc__, {}, name, name, 0)
        if not examples.examples or "\n    Example:\n" not in f"\n{value.__doc__}":
            without.append(name)
        run_examples(examples)
    assert not without, f"no example under the heading Example: in the docstrings of {', '.join(without)}"


def modules_with_examples() -> list[str]:
    package = ROOT / "hf_pct"
    files = [file for file in sorted(package.rglob("*.py")) if ">>>" in file.read_text(encoding="utf-8")]
    inside = [file.relative_to(ROOT).with_suffix("") for file in files if (file.parent / "__init__.py").exists()]
    return [".".join(path.parts).removesuffix(".__init__") for path in inside]


@pytest.mark.usefixtures("empty_folder")
@pytest.mark.parametrize("module", modules_with_examples())
def test_examples_in_docstrings_print_what_they_say(module):
    tests = [test for test in doctest.DocTestFinder().find(importlib.import_module(module)) if test.examples]
    for test in tests:
        run_examples(test)


def test_links_within_the_project_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
