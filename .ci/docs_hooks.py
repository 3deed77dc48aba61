"""Links that leave docs/ (to results, examples, the README) point to the repository; no page asks another host."""

import re
from typing import Any

_OUTSIDE = re.compile(r"\]\(\.\./((?!docs/)[^)\s]+)\)")


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """`](../benchmarks/RESULTS.md#t1)` works on GitHub as it is; on the site it becomes the address of that file."""
    depth = page.file.src_uri.count("/")
    if depth:
        return markdown
    return _OUTSIDE.sub(rf"]({config['repo_url']}/blob/main/\1)", markdown)


def on_post_page(output: str, *, page: Any, config: Any) -> str:
    """The link to the repository stays a link: the theme would ask GitHub for its stars on every visit."""
    return output.replace(' data-md-component="source"', "")
