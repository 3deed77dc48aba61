"""The `evaluate` metric as a Space, so that `evaluate.load("org/nfr")` works without this kit."""

import re
from pathlib import Path

from huggingface_hub import HfApi

from ..metrics import metric_path
from .client.access import check_write_access
from .client.commit import Commit, commit_files

SDKS = ("gradio", "static")
_PAGE = """<!doctype html>
<meta charset="utf-8">
<title>Negative flip rate</title>
<p>A metric for <code>evaluate.load</code>; its description is in README.md.</p>
"""


def push_metric(
    repo_id: str,
    name: str = "nfr",
    *,
    token: str | None = None,
    private: bool | None = None,
    sdk: str = "gradio",
) -> Commit:
    """Upload a metric's folder as a Space. `evaluate` looks for a script named as the Space: `org/nfr` has `nfr.py`.

    `sdk="static"` puts up the metric without its page to try it on, which needs no server.
    """
    if sdk not in SDKS:
        raise ValueError(f"sdk is {sdk!r}, expected one of {', '.join(SDKS)}.")
    folder = Path(metric_path(name))
    full_id = check_write_access(repo_id, token, repo_type="space")
    files: dict[str, Path | bytes] = {
        path.relative_to(folder).as_posix(): path
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }
    script = f"{full_id.split('/')[1]}.py"
    if script not in files:  # the Space has another name than the metric
        files[script] = files.pop(f"{name}.py")
        if sdk == "gradio":
            files["app.py"] = (folder / "app.py").read_bytes().replace(f'"{name}.py"'.encode(), f'"{script}"'.encode())
    if sdk == "static":
        files.pop("app.py", None)
        files |= {"index.html": _PAGE.encode(), "README.md": _static_readme(folder / "README.md")}
    return commit_files(
        HfApi(token=token),
        full_id,
        files,
        message=f"The metric {name} of hf_pct",
        repo_type="space",
        private=private,
        space_sdk=sdk,
    )


def _static_readme(path: Path) -> bytes:
    text = path.read_text(encoding="utf-8")
    text = re.sub(r"^sdk: .*$", "sdk: static", text, count=1, flags=re.MULTILINE)
    return re.sub(r"^(sdk_version|app_file): .*\n", "", text, flags=re.MULTILINE).encode("utf-8")
