"""The wheel without torch: built, installed into a fresh venv as CI would, and used on two files."""

import json
import os
import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROWS = [{"id": row, "label": "yes", "prediction": "yes" if row % 4 else "no"} for row in range(40)]
QUIET = ("--disable-pip-version-check", "--quiet")


def run(*command: object, cwd: Path, **environment: str) -> subprocess.CompletedProcess:
    """A command in an environment of its own: nothing of this test's interpreter is on its path."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [str(word) for word in command], cwd=cwd, env=kept | environment, capture_output=True, text=True, timeout=280
    )


def checked(*command: object, cwd: Path, **environment: str) -> str:
    done = run(*command, cwd=cwd, **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def light(tmp_path_factory) -> Path:
    """A venv with the wheel and the packages of requirements-light.txt, and nothing else."""
    folder = tmp_path_factory.mktemp("light")
    checked(sys.executable, "-m", "pip", "wheel", *QUIET, "--no-deps", "--wheel-dir", folder, ROOT, cwd=folder)
    (wheel,) = folder.glob("hf_pct-*.whl")
    lines = (ROOT / "requirements-light.txt").read_text().splitlines()
    packages = [str(wheel) if line == "." else line for line in lines if line and not line.startswith("#")]
    (folder / "light.txt").write_text("\n".join(packages))
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / "bin" / "python"
    checked(python, "-m", "pip", "install", *QUIET, "--no-deps", "-r", folder / "light.txt", cwd=folder)
    return python


def test_torch_is_not_there(light, tmp_path):
    code = "import importlib.util as find; print(any(map(find.find_spec, ['torch', 'transformers', 'datasets'])))"
    assert checked(light, "-c", code, cwd=tmp_path).strip() == "False"


def write_sides(folder: Path) -> None:
    new = [row | {"prediction": "no"} if row["id"] == 1 else row for row in ROWS]
    for name, rows in (("old", ROWS), ("new", new)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_two_files_are_compared_gated_and_shown(light, tmp_path):
    write_sides(tmp_path)
    hf_pct = (light, "-m", "hf_pct")
    assert "2.50" in checked(*hf_pct, "compare", "old.jsonl", "new.jsonl", "--output_dir", "out", cwd=tmp_path)
    report = "out/flip_report.json"
    assert run(*hf_pct, "gate", report, "--max_nfr", "0.05", cwd=tmp_path).returncode == 0
    assert run(*hf_pct, "gate", report, "--max_nfr", "0.01", cwd=tmp_path).returncode == 1
    checked(*hf_pct, "page", report, "-o", "update.html", cwd=tmp_path)
    assert "</html>" in (tmp_path / "update.html").read_text()
    checked(*hf_pct, "--help", cwd=tmp_path)


def test_traffic_without_labels_is_compared_labelled_and_gated(light, tmp_path):
    write_sides(tmp_path)
    hf_pct, sides = (light, "-m", "hf_pct"), ("old.jsonl", "new.jsonl")
    assert "1 of 40 answers changed" in checked(*hf_pct, "traffic", *sides, cwd=tmp_path)
    checked(*hf_pct, "label-plan", *sides, "--output", "plan.csv", "--page", "label.html", cwd=tmp_path)
    plan = (tmp_path / "plan.csv").read_text().splitlines()
    right = plan[0].split(",").index("right")
    cells = plan[1].split(",")
    cells[right] = "old"
    (tmp_path / "plan.csv").write_text("\n".join([plan[0], ",".join(cells)]) + "\n")
    traffic = ("traffic", *sides, "--labels", "plan.csv", "--output", "traffic.json")
    assert "2.50 %" in checked(*hf_pct, *traffic, cwd=tmp_path)
    assert run(*hf_pct, "gate", "traffic.json", "--max_nfr", "0.05", cwd=tmp_path).returncode == 0
    assert run(*hf_pct, "gate", "traffic.json", "--max_nfr", "0.01", cwd=tmp_path).returncode == 1


def test_what_needs_more_says_what_to_install(light, tmp_path):
    write_sides(tmp_path)
    done = run(light, "-m", "hf_pct", "compare", "old.jsonl", "new.jsonl", "--plots", "plots", cwd=tmp_path)
    assert done.returncode == 2
    assert "hf-pct[viz]" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("predict", "model", "--dataset", "rows.jsonl", "--output", "answers.parquet"),
        ("compare", "model-v1", "model-v2", "--dataset", "rows.jsonl"),
        ("merge", "v1", "v2", "--alpha", "0.5", "--output_dir", "merged"),
        ("update", "--old_model", "v1", "--train_file", "a", "--validation_file", "b", "--output_dir", "v2"),
        ("demo",),
    ],
    ids=lambda words: words[0],
)
def test_what_runs_a_model_says_how_to_install_the_rest(light, tmp_path, words):
    done = run(light, "-m", "hf_pct", *words, cwd=tmp_path)
    assert done.returncode == 2
    assert "Install everything: pip install 'hf-pct @ git+https" in done.stderr
    assert done.stderr.count("\n") == 1


def test_nothing_claims_a_release_that_does_not_exist():
    """How to install is said in one place, `core/versions.py`; a message or a card that says it otherwise is old."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.py")]
    pages += [path for path in (ROOT / "hf_pct").rglob("*") if path.suffix in (".py", ".j2", ".md")]
    said = re.compile(r"pip install (?:-U |--upgrade )?'?hf[-_]pct(?! @|\[\w+\] @)")
    assert not [path.name for path in pages if said.search(path.read_text(encoding="utf-8"))]


def act(python: Path, folder: Path, **inputs: str) -> dict[str, str]:
    """The steps of the Action between installing and commenting; what it sets for later steps."""
    output, summary = folder / "output.txt", folder / "summary.md"
    environment = {"OLD": "old.jsonl", "NEW": "new.jsonl", "CONFIG": "gate.yaml", "OUTPUT_DIR": "out"} | inputs
    files = {"GITHUB_OUTPUT": str(output), "GITHUB_STEP_SUMMARY": str(summary)}
    for path in (output, summary):
        path.unlink(missing_ok=True)
    checked("bash", ROOT / ".ci" / "action_gate.sh", cwd=folder, PYTHON=str(python), **environment, **files)
    assert summary.read_text() == (folder / "out" / "gate.md").read_text(), "what the pull request is told"
    return dict(line.split("=", 1) for line in output.read_text().splitlines())


@pytest.mark.parametrize(("limit", "code"), [("0.05", "0"), ("0.01", "1")])
def test_the_steps_of_the_action_give_its_verdict(light, tmp_path, limit, code):
    write_sides(tmp_path)
    (tmp_path / "gate.yaml").write_text(f"max_nfr: {limit}\n")
    assert act(light, tmp_path) == {"report": "out/flip_report.json", "exit_code": code}
    assert {path.name for path in (tmp_path / "out").iterdir()} >= {"flip_report.json", "gate.xml", "update.html"}
    assert ("passed" if code == "0" else "REGRESSED") in (tmp_path / "out" / "gate.md").read_text()


def test_the_action_takes_scores(light, tmp_path):
    for name, score in (("old", 1.0), ("new", 0.5)):
        rows = [{"id": row, "score": score if row == 0 else 0.8} for row in range(40)]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "gate.yaml").write_text("max_dropped: 0.01\n")
    outputs = act(light, tmp_path, COMPARE_OPTIONS="--right_at none")
    assert outputs == {"report": "out/score_report.json", "exit_code": "1"}
    assert "</html>" in (tmp_path / "out" / "update.html").read_text()


def test_the_action_takes_the_file_of_another_revision(light, tmp_path):
    write_sides(tmp_path)
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@b.c")
    checked(*git, "init", "-q", "-b", "main", cwd=tmp_path)
    (tmp_path / "answers.jsonl").write_text((tmp_path / "old.jsonl").read_text())
    checked(*git, "add", "answers.jsonl", cwd=tmp_path)
    checked(*git, "commit", "-qm", "v1", cwd=tmp_path)
    (tmp_path / "answers.jsonl").write_text((tmp_path / "new.jsonl").read_text())
    (tmp_path / "gate.yaml").write_text("max_nfr: 0.01\n")
    outputs = act(light, tmp_path, OLD="main:answers.jsonl", NEW="answers.jsonl")
    assert outputs["exit_code"] == "1"
    assert json.loads((tmp_path / "out" / "flip_report.json").read_text())["negative_flips"] == 1


@pytest.mark.parametrize(
    ("new", "gate", "code", "told"),
    [
        ('{"id": 900, "label": "yes", "prediction": "yes"}\n', "max_nfr: 0.01\n", "3", "could not be compared"),
        (None, "max_slice_nfr: 0.01\n", "3", "could not be judged"),
        (None, "max_nrf: 0.01\n", "2", "could not be judged"),
    ],
    ids=["other rows", "a rule that judges nothing", "a misspelt rule"],
)
def test_the_action_says_when_there_is_no_verdict(light, tmp_path, new, gate, code, told):
    write_sides(tmp_path)
    (tmp_path / "gate.yaml").write_text(gate)
    if new:
        (tmp_path / "new.jsonl").write_text(new)
    assert act(light, tmp_path)["exit_code"] == code
    assert told in (tmp_path / "out" / "gate.md").read_text()


def test_every_step_of_the_action_and_the_workflows_is_valid():
    import yaml

    action = yaml.safe_load((ROOT / "action.yml").read_text())
    steps = action["runs"]["steps"]
    assert any(".ci/action_gate.sh" in step.get("run", "") for step in steps)
    assert all("shell" in step for step in steps if "run" in step), "a composite step needs a shell"
    targets = set((ROOT / "Makefile").read_text().replace(":", " ").split())
    for path in sorted((ROOT / ".github" / "workflows").glob("*.yml")):
        workflow = yaml.safe_load(path.read_text())
        for job in workflow["jobs"].values():
            for step in job["steps"]:
                words = step.get("run", "").split()
                if words[:1] == ["make"] and "${{" not in step["run"]:
                    assert words[1] in targets, f"{path.name}: make {words[1]}"
