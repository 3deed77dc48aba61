"""The package keeps its shape: small rooms that the docs name, types that say what passes, and no import cycles."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted((ROOT / "hf_pct").rglob("*.py"))
}
ROOMS = sorted({path.parent for path in MODULES.values()} - {ROOT / "hf_pct"})


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: str(room.relative_to(ROOT)))
def test_a_room_has_at_most_twelve_modules_and_is_in_the_docs(room):
    assert len([path for path in room.glob("*.py") if path.name != "__init__.py"]) <= 12
    name = room.relative_to(ROOT / "hf_pct").as_posix()
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    line = re.search(rf"^\| `{name}/` \| .+ \| (.*) \|$", page, re.MULTILINE)
    modules = sorted(path.stem for path in room.glob("*.py") if path.name != "__init__.py")
    assert line, f"docs/architecture.md has no line for {name}/"
    assert re.findall(r"`(\w+)`", line[1]) == modules


def test_any_is_rare():
    lines = [line for path in MODULES.values() for line in path.read_text(encoding="utf-8").splitlines()]
    uses = sum(len(re.findall(r"\bAny\b", line)) for line in lines if "import" not in line)
    assert uses <= len(lines) / 100


def imports_of(name: str) -> set[str]:
    """The modules that a module imports when it is imported, and those that only type checkers read."""
    path = MODULES[name]
    text = path.read_text(encoding="utf-8")
    if path.name == "__init__.py" and "lazy_names" in text:
        return set()  # public names, loaded when they are first used
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    waiting, imported = [ast.parse(text)], set()
    while waiting:
        for node in ast.iter_child_nodes(waiting.pop()):
            if isinstance(node, ast.ImportFrom):
                above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
                source = ".".join([*above, *([node.module] if node.module else [])])
                imported |= {f"{source}.{entry.name}" for entry in node.names} | {source}
            if not isinstance(node, (ast.FunctionDef, ast.Lambda)):
                waiting.append(node)
    return (imported & MODULES.keys()) - {name}


def test_no_import_goes_round_in_a_circle():
    left = {name: imports_of(name) for name in MODULES}
    for name in left:  # a package is named on the way to its modules, which is no use of its names
        left[name] -= {other for other in left[name] if MODULES[other].name == "__init__.py" and f"{other}." in name}
    while leaves := {name for name, needed in left.items() if not needed & left.keys()}:
        left = {name: needed for name, needed in left.items() if name not in leaves}
    assert not left, "these import each other: " + ", ".join(sorted(left))
