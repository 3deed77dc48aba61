"""The methods as tables for the docs, from what they declare: `python -m hf_pct.methods.tables` prints the page."""

from __future__ import annotations

from collections.abc import Iterable

from .base import MergeRule, Method, TrainingMethod, WeightMethod
from .registry import methods_of
from .settings import Setting, settings_of

_PARTS: tuple[tuple[str, str, type[Method]], ...] = (
    ("Losses", "`method` chooses one of them; the trainer adds it to cross-entropy.", TrainingMethod),
    (
        "Weights held near the old ones",
        "Each is off at 0 and works beside any loss and beside the others.",
        WeightMethod,
    ),
    ("Merge rules", "`--method` of `hf-pct merge`, `method` of `BCWIArguments`.", MergeRule),
)


def methods_page() -> str:
    """The whole page `docs/methods.md`."""
    lines = [
        "# Methods",
        "",
        "<!-- written by `make docs-methods` from hf_pct/methods/; do not edit -->",
        "",
        "Every method is one file in `hf_pct/methods/`. Flags, YAML keys and this page are made from what the file",
        "declares; [Add a method](add_a_method.md) shows how to write one.",
    ]
    for title, text, kind in _PARTS:
        methods = methods_of(kind).values()
        lines += ["", f"## {title}", "", text, "", *methods_table(methods), "", *settings_table(methods)]
    return "\n".join(lines) + "\n"


def methods_table(methods: Iterable[type[Method]]) -> list[str]:
    """One line per method: its name, what it does, what it needs, its source."""
    rows = [f"| `{method.name}` | {method.summary()} | {_needs(method)} | {method.paper} |" for method in methods]
    return ["| method | what it does | needs | source |", "|---|---|---|---|", *rows]


def settings_table(methods: Iterable[type[Method]]) -> list[str]:
    """One line per setting, with the methods that have it; nothing where there is no setting."""
    users: dict[str, list[str]] = {}
    settings: dict[str, Setting] = {}
    for method in methods:
        for entry in settings_of(method):
            users.setdefault(entry.name, []).append(f"`{method.name}`")
            settings.setdefault(entry.name, entry)
    if not settings:
        return []
    rows = [
        f"| `{name}` | {_default(entry)} | {_text(entry)} | {', '.join(users[name])} |"
        for name, entry in settings.items()
    ]
    return ["| setting | default | | of |", "|---|---|---|---|", *rows]


def _needs(method: type[Method]) -> str:
    needs = method.needs
    parts = [*(f"logits of `{name}`" for name in needs.references)]
    parts += [text for text, asked in (
        ("the old weights", needs.old_weights), ("features", needs.features), ("the Fisher", needs.fisher),
    ) if asked]  # fmt: skip
    return ", ".join(parts) or "nothing"


def _default(entry: Setting) -> str:
    return "unset" if entry.default is None else f"{entry.default}"


def _text(entry: Setting) -> str:
    text = entry.help if entry.choices is None else f"{entry.help} One of {', '.join(entry.choices)}."
    if entry.paper is not None and entry.paper != entry.default:
        text += f" The paper's is {entry.paper}."
    return text + (f" Formerly `{'`, `'.join(entry.aliases)}`." if entry.aliases else "")


if __name__ == "__main__":
    print(methods_page(), end="")
