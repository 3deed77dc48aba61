"""Fields of argument classes from the settings that methods declare: flags, YAML keys and `--help` follow from them.

A setting that several methods share is one field. Where their defaults differ its default is `None`: each method then
keeps its own. Older names of a setting are accepted as flags and keywords with a warning, and can be read and set.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar, dataclass_transform

from ..core.decode import JsonObject
from .base import Method
from .settings import Setting, find_problems, settings_of

Arguments = TypeVar("Arguments", bound="MethodArguments")


class AcceptsOlderNames(type):
    """Translates keywords under older names before a class, or any subclass of it, is built."""

    def __call__(cls, *args: object, **kwargs: object) -> Any:
        called = {}
        for alias, name in older_names([cls]).items():
            if alias in kwargs:
                warn_of_older_name(alias, name)
                if name in kwargs:
                    raise TypeError(f"{cls.__name__} was given {name} and {alias}, which is its older name.")
                kwargs[name], called[name] = kwargs.pop(alias), alias
        built: Any = cls.__new__(cls)  # type: ignore[call-overload]
        built.__dict__["_called"] = called
        built.__init__(*args, **kwargs)
        return built


class MethodArguments(metaclass=AcceptsOlderNames):
    """What an argument class knows of the methods whose settings it has; it is the first of its base classes."""

    declared: Mapping[str, Setting] = {}
    """The settings by name."""
    methods_with_settings: tuple[type[Method], ...] = ()
    _called: dict[str, str]  # settings that were given under an older name, with that name

    def setting_problems(self) -> list[str]:
        """What is wrong with the settings of methods, one line each."""
        called = self.__dict__.get("_called", {})
        problems = find_problems(self.declared.values(), {name: getattr(self, name) for name in self.declared}, called)
        return problems + [line for method in self.methods_with_settings for line in method.conflicts(self)]


@dataclass_transform(field_specifiers=(field,))
def arguments_for(methods: Iterable[type[Method]]) -> Callable[[type[Arguments]], type[Arguments]]:
    """Make a class a dataclass with a field for each setting of `methods`, beside those that it has and inherits."""
    chosen = tuple(methods)

    def make(cls: type[Arguments]) -> type[Arguments]:
        inherited = {entry.name for base in cls.__mro__[1:] for entry in _own_fields(base)}
        merged = merge_settings(entry for method in chosen for entry in settings_of(method))
        added = {name: entry for name, entry in merged.items() if name not in inherited}
        annotations = inspect.get_annotations(cls)
        for name, entry in added.items():
            annotations[name] = entry.type
            setattr(cls, name, _as_field(entry))
        cls.__annotations__ = annotations
        cls.declared = {**cls.declared, **added}
        cls.methods_with_settings = tuple(dict.fromkeys((*cls.methods_with_settings, *chosen)))
        made: type[Arguments] = dataclass(cls)
        for alias, name in older_names([cls]).items():
            setattr(made, alias, _forwarding(name))
        return made

    return make


def merge_settings(settings: Iterable[Setting]) -> dict[str, Setting]:
    """One setting per name; a default that methods do not share becomes `None`, each keeps its own."""
    merged: dict[str, Setting] = {}
    for entry in settings:
        known = merged.setdefault(entry.name, entry)
        if known.default != entry.default:
            merged[entry.name] = replace(known, default=None, type=known.type | None)
    return merged


def older_names(classes: Iterable[type]) -> dict[str, str]:
    """Older names of settings with those they have now, of all argument classes."""
    declared = (entry for cls in classes for entry in getattr(cls, "declared", {}).values())
    return {alias: entry.name for entry in declared for alias in entry.aliases}


def _own_fields(cls: type) -> tuple:
    return fields(cls) if "__dataclass_fields__" in vars(cls) else ()


def _as_field(entry: Setting) -> Any:
    metadata: JsonObject = {"help": entry.help}
    if entry.choices is not None:
        metadata["choices"] = entry.choices
    if entry.aliases:
        # HfArgumentParser takes the name of a field with hyphens too, so its older names had both spellings
        spellings = (spelling for alias in entry.aliases for spelling in (alias, alias.replace("_", "-")))
        metadata["aliases"] = [f"--{spelling}" for spelling in dict.fromkeys(spellings)]
        metadata["help"] += f" Formerly {', '.join(entry.aliases)}."
    return field(default=entry.default, metadata=metadata)


def _forwarding(name: str) -> property:
    return property(
        lambda self: getattr(self, name), lambda self, value: setattr(self, name, value), doc=f"Formerly; now {name}."
    )


def warn_of_older_name(alias: str, name: str) -> None:
    """Say once per place that a setting has another name now."""
    warnings.warn(f"The setting {alias} is now called {name}.", FutureWarning, stacklevel=3)
