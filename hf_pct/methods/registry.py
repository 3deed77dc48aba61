"""Finds methods by name. A file below `hf_pct/methods/` that registers a class is all that a new method needs."""

from __future__ import annotations

import dataclasses
import pkgutil
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import TypeVar

from .base import Method
from .settings import settings_of

_METHODS: dict[str, type[Method]] = {}
Kind = TypeVar("Kind", bound=Method)


def register(
    name: str, *, paper: str = "", bibtex: str = "", tag: str | None = None, order: int = 1000
) -> Callable[[type[Kind]], type[Kind]]:
    """Make a method known by `name`, with its source for the docs and the card.

    Args:
        name: what people write: `--method fd-lm`, `method: fd-lm`.
        paper: authors, venue and year, or the part of the paper, for the table in the docs.
        bibtex: the entry that the model card cites.
        tag: the tag of a model on the Hub; the name when unset.
        order: where the method stands in lists, new ones last; equal ones are sorted by name.
    """

    def add(method: type[Kind]) -> type[Kind]:
        known = _METHODS.get(name)
        if known is not None and known.__qualname__ != method.__qualname__:
            raise ValueError(f"The method {name!r} is registered twice: {known.__qualname__}, {method.__qualname__}.")
        method.name, method.paper, method.bibtex, method.order = name, paper, bibtex, order
        method.tag = name if tag is None else tag
        if not dataclasses.is_dataclass(method):
            raise TypeError(f"{method.__qualname__} is no dataclass: write @dataclass(frozen=True) below @register.")
        _METHODS[name] = method
        return method

    return add


@cache
def _import_method_files() -> None:
    """Import every file of every folder below this one; files beside this one are what they share."""
    package = import_module(__package__)
    for folder in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        if folder.ispkg:
            for module in pkgutil.iter_modules(import_module(folder.name).__path__, f"{folder.name}."):
                import_module(module.name)


def methods_of(kind: type[Kind]) -> dict[str, type[Kind]]:
    """The methods of one kind by name: `TrainingMethod`, `WeightMethod` or `MergeRule`."""
    _import_method_files()
    chosen = [method for method in _METHODS.values() if issubclass(method, kind)]
    return {method.name: method for method in sorted(chosen, key=lambda method: (method.order, method.name))}


def find_method(name: str, kind: type[Kind]) -> type[Kind]:
    """The method of a kind that is called `name`."""
    known = methods_of(kind)
    if name not in known:
        raise ValueError(f"method={name!r}: expected one of {', '.join(known)}")
    return known[name]


def build(method: type[Kind], values: Mapping[str, object] | object) -> Kind:
    """A method with its settings taken by name from a mapping or from an object such as training arguments.

    Other values are passed over. A name that is missing keeps its default, and so does one that is unset (`None`)
    although the method needs a value.
    """
    chosen = {}
    for entry in settings_of(method):
        value = (
            values.get(entry.name, entry.default)
            if isinstance(values, Mapping)
            else getattr(values, entry.name, entry.default)
        )
        chosen[entry.name] = entry.default if value is None and not entry.optional else value
    return method(**chosen)
