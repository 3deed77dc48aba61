"""Old names still work, with a DeprecationWarning that says the new one. People have them in scripts.

`hf_pct.merging.streaming` imports as `hf_pct.merging.checkpoints.stream`, which is what it became; `renamed` gives a
method its old name beside the new one.
"""

import sys
import types
import warnings
from collections.abc import Callable, Sequence
from functools import wraps
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_PACKAGE = "hf_pct"
MOVED = {
    "_lazy": "core.lazy",
    "cli.arguments": "cli.options",
    "cli.hub": "cli.publish.push",
    "cli.merge": "cli.change.merge",
    "cli.page": "cli.measure.page",
    "cli_arguments": "cli.options",
    "compare_files": "flips.comparison_files",
    "data": "models.data",
    "demo.quiet": "models.quiet",
    "ensembles.adapters": "models.ensembles.shared_backbone",
    "ensembles.checks": "models.ensembles.checks",
    "ensembles.folders": "models.ensembles.folders",
    "ensembles.locations": "models.ensembles.locations",
    "ensembles.mean": "models.ensembles.mean",
    "ensembles": "models.ensembles",
    "environment": "core.versions",
    "files": "core.files",
    "fingerprints": "models.fingerprints",
    "flips.analysis": "flips.studies.logit_figures",
    "flips.centric": "flips.studies.centric",
    "flips.columns": "flips.tables.columns",
    "flips.displacement": "flips.studies.displacement",
    "flips.draws": "flips.studies.draws",
    "flips.encoding": "flips.tables.encoding",
    "flips.ensemble": "flips.studies.ensemble",
    "flips.ensemble_size": "flips.studies.ensemble_size",
    "flips.epochs": "flips.studies.epochs",
    "flips.errors": "core.errors",
    "flips.gate_output": "flips.render.gate",
    "flips.markdown": "flips.render.report",
    "flips.members": "flips.studies.member_tables",
    "flips.predicted_norms": "flips.studies.predicted_norms",
    "flips.prediction_files": "flips.tables.readers",
    "flips.predictions": "flips.tables.predictions",
    "flips.uncertainty": "flips.studies.uncertainty",
    "hub.access": "hub.client.access",
    "hub.calls": "hub.client.calls",
    "hub.card_data": "hub.card.metadata",
    "hub.command": "cli.publish.push",
    "hub.commit": "hub.client.commit",
    "hub.methods": "hub.card.methods",
    "hub.names": "hub.client.names",
    "hub.old_card": "hub.card.old_card",
    "hub.weights_check": "hub.evidence",
    "labels": "core.labels",
    "merging.adapters": "merging.lora",
    "merging.alignment": "merging.rebasing.alignment",
    "merging.args": "merging.arguments",
    "merging.automatic": "cli.change.automatic_merge",
    "merging.batchnorm": "models.batchnorm",
    "merging.curve": "flips.choice.curve",
    "merging.command": "cli.change.merge",
    "merging.fisher": "models.fisher.diagonal",
    "merging.heads": "models.heads",
    "merging.outputs": "core.files",
    "merging.per_sample": "models.fisher.per_sample",
    "merging.record": "merging.checkpoints.record",
    "merging.replay": "merging.checkpoints.replay",
    "merging.soup": "methods.merges.soup",
    "merging.streaming": "merging.checkpoints.stream",
    "merging.symmetries": "merging.rebasing.symmetries",
    "merging.weight_files": "merging.checkpoints.read",
    "models.declared": "models.load.declared",
    "models.processors": "models.load.processors",
    "models.timm_models": "models.load.timm_models",
    "predict": "models.predict",
    "processors": "models.load.processors",
    "revisions": "models.revisions",
    "tasks": "models.load",
    "training.args": "training.arguments",
    "training.base": "training.trainer",
    "training.flip_metrics": "training.evaluation.metrics",
    "training.metrics": "training.evaluation.metrics",
    "training.processors": "training.references.own_processor",
    "training.reference_part": "training.references.part",
    "training.rows": "training.references.rows",
    "training.sources": "training.references.sources",
    "training.references.table": "models.cache",
    "training.tables": "models.cache",
    "training.timm_models": "models.load.timm_models",
    "training.anchored": "training.anchors.penalties",
    "training.losses": "methods.loss_modules",
    "training.mixout": "methods.mixed_layers",
    "training.old_weights": "training.anchors.old_weights",
    "training.member_models": "training.members.join",
    "training.separate": "training.members.separate",
    "training.watch": "training.divergence",
    "viz.command": "cli.measure.page",
    "viz.curve_svg": "viz.page.curve",
    "viz.distribution_plots": "viz.figures.distributions",
    "viz.labelling.write": "viz.page.labelling",
    "viz.labelling": "viz.page.labelling",
    "viz.merge_plots": "viz.figures.merge",
    "viz.page_data": "viz.page.data",
    "viz.page_view": "viz.page.view",
    "viz.plot_style": "viz.figures.style",
    "viz.plots": "viz.figures.plots",
    "viz.report_plots": "viz.figures.report",
    "viz.thumbnails": "viz.page.thumbnails",
    "viz.training_plots": "viz.figures.training",
    "update.data": "update.inputs.data",
    "update.plan": "update.planning.plan",
}

# functions that have another name where they are now, by the name that the old module had
RENAMED = {
    f"{old}_{name}{end}": (f"cli.{module}", new)
    for name, module in {
        "predict": "change.predict",
        "compare": "measure.compare",
        "gate": "measure.gate",
        "merge": "change.merge",
        "page": "measure.page",
        "card": "publish.card",
        "push": "publish.push",
        "verify": "publish.verify",
        "push_metric": "publish.push_metric",
    }.items()
    for old, end, new in (("add", "_arguments", "add_arguments"), ("run", "", "run"))
}
RENAMED |= {
    "READABLE": ("flips.tables.readers", "PLAIN"),
    "Members": ("flips.studies.member_tables", "MemberTables"),
    "Method": ("hub.card.methods", "DescribedMethod"),
    "Source": ("merging.checkpoints.record", "MergeInput"),
}
# names that did not move with the rest of their module
RENAMED |= {
    name: (module, name)
    for module, names in {
        "core.weight_files": ["PICKLED"],
        "methods.old_versions": ["TARGETS"],
        "models.fisher.layers": ["BLOCK_ELEMENTS"],
        "models.identity": ["model_fingerprint", "processor_fingerprint"],
        "models.revisions": ["resolve_folder"],
        "training.references.part": ["shared_identity"],
        "training.references.rows": ["column_table"],
    }.items()
    for name in names
}


class MovedModules(MetaPathFinder, Loader):
    """Finds a module by its old name. Its finder is asked last, so a name that exists is never touched."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, name = fullname.partition(".")
        if package != _PACKAGE or name not in MOVED:
            return None
        return ModuleSpec(fullname, self, is_package=any(old.startswith(f"{name}.") for old in MOVED))

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        return _Alias(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        name = module.__name__.removeprefix(f"{_PACKAGE}.")
        new_name = f"{_PACKAGE}.{MOVED[name]}"
        warnings.warn(f"{module.__name__} has moved to {new_name}.", DeprecationWarning, stacklevel=2)
        module.__dict__["_moved_to"] = import_module(new_name)


class _Alias(types.ModuleType):
    """Everything that is asked of the old name is asked of the new one."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__") or "_moved_to" not in self.__dict__:
            raise AttributeError(name)
        target = self.__dict__["_moved_to"]
        if name in RENAMED and not hasattr(target, name):
            module, name = RENAMED[name]
            target = import_module(f"{_PACKAGE}.{module}")
        return getattr(target, name)

    def __setattr__(self, name: str, value: object) -> None:
        target = self.__dict__.get("_moved_to")
        if target is None or name.startswith("__"):
            super().__setattr__(name, value)
        else:
            setattr(target, name, value)

    def __call__(self, *args: object, **kwargs: object) -> object:
        """`import hf_pct.predict` puts the old module over the function `hf_pct.predict`, which people call."""
        return getattr(self, self.__name__.rpartition(".")[2])(*args, **kwargs)


def serve_old_names() -> None:
    """Let the old names be imported; asking twice changes nothing."""
    if not any(isinstance(finder, MovedModules) for finder in sys.meta_path):
        sys.meta_path.append(MovedModules())


def renamed(old_name: str, method: Callable[P, R]) -> Callable[P, R]:
    """The method under its old name."""

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        warnings.warn(f"{old_name} is called {method.__name__} now.", DeprecationWarning, stacklevel=2)
        return method(*args, **kwargs)

    return call
