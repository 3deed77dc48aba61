"""The templates of the pages: markup that escapes every value, one script, one style sheet, and nothing else."""

import base64
import hashlib
from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Environment


def render_template(
    name: str, *, scripts: Sequence[str], styles: Sequence[str] = ("page.css",), **values: object
) -> str:
    """A whole page: the template with `values`, the scripts in one scope, the style sheets, the policy for both."""
    script, style = _one_scope(scripts) if scripts else "", "".join(map(template_text, styles))
    page = _environment().get_template(name)
    text = page.render(script=script, style=style, policy=content_policy(script, style), **values)
    return text.encode("utf-8", "replace").decode("utf-8")  # half a surrogate pair cannot be written to a file


def content_policy(script: str, style: str) -> str:
    """No request of any kind; only the one script and the one style sheet of this file; images only as data."""
    return (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode('ascii')}'"


def _one_scope(names: Sequence[str]) -> str:
    """The parts of the script in one scope, so that nothing of it is global; nothing for a page without any."""
    if not names:
        return ""
    return '"use strict";\n(() => {\n' + "\n".join(template_text(name) for name in names) + "})();"


@lru_cache
def template_text(name: str) -> str:
    """One file of the templates."""
    return (files("hf_pct.viz.page") / "templates" / name).read_text(encoding="utf-8")


@lru_cache
def _environment() -> "Environment":
    """Jinja with escaping, where a missing value is an error."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    # trusted are only our own script and style sheet and the escaped JSON block; the template marks them one by one
    return Environment(
        loader=FunctionLoader(template_text),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
