"""What made a model compatible, in words: the method's tag, one sentence, its settings and whom to cite."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_PCT = """@inproceedings{yan2021positive,
  title     = {Positive-Congruent Training: Towards Regression-Free Model Updates},
  author    = {Yan, Sijie and Xiong, Yuanjun and Kundu, Kaustav and Yang, Shuo and Deng, Siqi and Wang, Meng and
               Xia, Wei and Soatto, Stefano},
  booktitle = {Proceedings of the IEEE/CVF Conference on Computer Vision and Pattern Recognition (CVPR)},
  year      = {2021}
}"""
_BCWI = """@article{schumann2023backward,
  title   = {Backward Compatibility During Data Updates by Weight Interpolation},
  author  = {Schumann, Raphael and Mansimov, Elman and Lai, Yi-An and Pappas, Nikolaos and Gao, Xibin and Zhang, Yi},
  journal = {arXiv preprint arXiv:2301.10546},
  year    = {2023}
}"""
_ELODI = """@article{zhao2022elodi,
  title   = {ELODI: Ensemble Logit Difference Inhibition for Positive-Congruent Training},
  author  = {Zhao, Yue and Shen, Yantao and Xiong, Yuanjun and Yang, Shuo and Xia, Wei and Tu, Zhuowen and
             Schiele, Bernt and Soatto, Stefano},
  journal = {arXiv preprint arXiv:2205.06265},
  year    = {2022}
}"""

# tag, sentence, citation
_TRAINED = {
    "fd": ("focal-distillation", "Trained with focal distillation: near the old model where that one is right.", _PCT),
    "kd": ("distillation", "Trained with distillation from the old model.", _PCT),
    "naive": ("reweighting", "Trained with more weight on the rows that the old model gets right.", _PCT),
    "elodi": ("elodi", "Trained to have logits near those of an ensemble (ELODI).", _ELODI),
    "none": ("", "Trained without a loss against the old model.", _PCT),
}
_MERGED = {
    "linear": "The weights are those of the old and of the new model, interpolated",
    "soup": "The weights are those of the old model and of the mean of several new ones, interpolated",
    "fisher": "The weights are those of the old and of the new model, interpolated by how much each mattered (Fisher)",
}


@dataclass(frozen=True)
class Method:
    """How the new model came to be. `tag` is empty where nothing is recorded."""

    tag: str = ""
    sentence: str = ""
    citation: str = _PCT
    settings: dict[str, Any] = field(default_factory=dict)
    relation: str = "finetune"


def describe_method(training: Mapping[str, Any], merge: Mapping[str, Any], adapter: bool = False) -> Method:
    """The method from `pct_config.json` and `pct_merge.json`; both may be empty."""
    if merge:
        alpha = merge.get("alpha")
        share = "by parts of the network, see below" if isinstance(alpha, Mapping) else f"at alpha {alpha}"
        how = _MERGED.get(str(merge.get("method")), "The weights are merged")
        sentence = f"{how} ({share}; alpha is the old model's share)."
        return Method("bcwi", sentence, _BCWI, _merge_settings(merge), "merge")
    name = str(training.get("method") or "")
    relation = "adapter" if adapter else "finetune"
    if not training:
        return Method(relation=relation)
    tag, sentence, citation = _TRAINED.get(name.split("-")[0], (name, f"Trained with the method {name}.", _PCT))
    return Method(tag, sentence, citation, dict(training.get("settings") or {}), relation)


def _merge_settings(merge: Mapping[str, Any]) -> dict[str, Any]:
    """What a reader can act on: how, how much, and what was promised; the curve stays in the record."""
    settings: dict[str, Any] = {"method": merge.get("method")}
    alpha = merge.get("alpha")
    if isinstance(alpha, Mapping):
        settings |= {f"alpha of {part}": value for part, value in alpha.items()}
    else:
        settings["alpha (share of the old model)"] = alpha
    settings["old model"] = (merge.get("old") or {}).get("path")
    settings["new models"] = ", ".join(str(source.get("path")) for source in merge.get("new") or ())
    selection = merge.get("selection") or {}
    settings |= {name: selection[name] for name in ("reason", "promise") if selection.get(name)}
    return {name: value for name, value in settings.items() if value not in (None, "")}
