"""Public names that are loaded when they are first used (PEP 562), so that importing a room costs nothing."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def lazy_names(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package whose public names live in the modules that `homes` says."""

    def __getattr__(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}; it has {', '.join(sorted(homes))}")
        value = getattr(import_module("." * (not homes[name].startswith(".")) + homes[name], package), name)
        setattr(sys.modules[package], name, value)
        return value

    def __dir__() -> list[str]:
        return sorted({*homes, *(("__version__",) if hasattr(sys.modules[package], "__version__") else ())})

    return __getattr__, __dir__
