"""What the README and the docs show is what the code takes: commands parse, rules load, examples print the truth."""

import ast
import doctest
import re
import shlex
from pathlib import Path

import pytest

from hf_pct import GateConfig
from hf_pct.cli import build_parser

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


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


def test_links_within_the_project_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
