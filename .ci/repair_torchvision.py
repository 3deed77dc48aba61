"""Make `import torchvision` work where its wheel was built for CUDA and torch was not.

The registry's torchvision wheel is linked to CUDA. Under a CPU build of torch its C++ operators cannot be loaded, and
the import then fails with "operator torchvision::nms does not exist", taking timm, `transformers.Trainer` and the
`accelerate` command down with it. Only the *declaration* of two operators is missing: nothing here ever calls them.
So the repair declares them, from a `.pth` file in this environment's site-packages, when torchvision asks and they
are not there. Transforms and timm work after it; `torchvision.ops.nms` and `torchvision.io` stay unusable.

Run with the environment's own python. Does nothing when torchvision imports, or is not installed.
"""

import importlib.util
import subprocess
import sys
import sysconfig
from pathlib import Path

SYMPTOM = "operator torchvision::nms does not exist"
MODULE = "_torchvision_declare_operators"

SHIM = '''\
"""Written by hf_pct's .ci/repair_torchvision.py: declares the operators a CUDA torchvision lacks under a CPU torch."""

import importlib.abc
import sys

_TARGET = "torchvision._meta_registrations"
_keep = []  # a torch Library forgets its operators when it is collected


class _DeclareOperators(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == _TARGET and not _keep:
            import torch

            if not hasattr(torch.ops.torchvision, "nms"):
                library = torch.library.Library("torchvision", "DEF")
                library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
                library.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
                _keep.append(library)
        return None


sys.meta_path.insert(0, _DeclareOperators())
'''


def import_error() -> str:
    """What `import torchvision` says in a fresh interpreter; empty when it works."""
    run = subprocess.run([sys.executable, "-c", "import torchvision"], capture_output=True, text=True)
    return "" if run.returncode == 0 else run.stderr


def main() -> int:
    if importlib.util.find_spec("torchvision") is None:
        return 0
    error = import_error()
    if not error:
        return 0
    if SYMPTOM not in error:
        print(f"torchvision does not import, and not for the known reason:\n{error}", file=sys.stderr)
        return 1
    site_packages = Path(sysconfig.get_paths()["purelib"])
    (site_packages / f"{MODULE}.py").write_text(SHIM)
    (site_packages / f"{MODULE}.pth").write_text(f"import {MODULE}\n")
    error = import_error()
    if error:
        print(f"torchvision still does not import after the repair:\n{error}", file=sys.stderr)
        return 1
    print("torchvision: declared the operators that its CUDA wheel lacks under this CPU torch")
    return 0


if __name__ == "__main__":
    sys.exit(main())
