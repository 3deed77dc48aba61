"""The source distribution: it holds the repository, and its tests pass where only it is installed."""

import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# The tests of what most people run first. The whole suite is there too; it needs as long as `make test`.
QUICK_TESTS = ("tests/flips/test_counts.py", "tests/flips/test_gate.py", "tests/cli/test_entry.py", "tests/core")


def run(*command: object, cwd: Path) -> str:
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, env=kept, capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def tracked_files() -> set[str]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a clone: nothing says which files belong to the repository")
    return set(listed.stdout.splitlines())


@pytest.fixture(scope="module")
def sources(tmp_path_factory) -> Path:
    """The unpacked source distribution, built from a copy of the repository's files."""
    folder = tmp_path_factory.mktemp("sdist")
    for name in tracked_files():
        if (ROOT / name).exists():
            copy = folder / "repository" / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes((ROOT / name).read_bytes())
    build = f"from setuptools import build_meta; build_meta.build_sdist({str(folder)!r})"
    run(sys.executable, "-c", build, cwd=folder / "repository")
    (archive,) = folder.glob("hf_pct-*.tar.gz")
    with tarfile.open(archive) as files:
        files.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz")


def test_the_source_distribution_is_the_repository(sources):
    packed = {path.relative_to(sources).as_posix() for path in sources.rglob("*") if path.is_file()}
    assert not sorted(name for name in tracked_files() - packed if (ROOT / name).exists())


def test_it_is_installed_and_its_tests_pass(sources, tmp_path):
    """In a fresh venv; the packages that it needs are those of this one, so that torch is not installed again."""
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    packages = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=tmp_path).strip()
    (Path(packages) / "beside.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    quiet = ("--disable-pip-version-check", "--quiet", "--no-deps", "--force-reinstall")
    run(python, "-m", "pip", "install", *quiet, sources, cwd=tmp_path)
    where = run(python, "-c", "import hf_pct; print(hf_pct.__file__)", cwd=tmp_path).strip()
    assert where.startswith(packages)
    (sources / "hf_pct").rename(sources / "hf_pct_not_on_the_path")  # only what was installed can be imported
    printed = run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *QUICK_TESTS, cwd=sources)
    assert " passed" in printed
