"""Recipes: which trainings an update can choose among in the case that it finds, most promising first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

OWN = ("plain", "fd-lm", "fd-dynamic", "soup", "anew", "margin")
"""What a plan tries by itself, where the case is one for it, beside methods that learn from members; methods with
strengths are added at large budgets."""
LATER_SWEEPS = ("prior-weight-decay", "ewc")
"""Swept after all others when nothing was named and budget is left: each holds the weights near the old ones."""
CANDIDATE, MEMBER, SHORT = "candidate", "member", "short"
PATIENCE, MEMBERS = 3.0, 3
"""A student trains three times as long as its members, three in number (T24 of the benchmarks)."""


@dataclass(frozen=True)
class Recipe:
    """One training. `family` names the candidate that trainings of several seeds are averaged to.

    Recipes of one `sweep` are strengths of one method, from light to strong: when one is behind other candidates at
    every alpha, stronger ones are not trained. `length` is in units of one plain training. `uses` are trained before:
    the members of an ensemble, or the independent model of `margin`. A `member` is trained only to be used, a `short`
    training only to rank strengths; neither is chosen. `head` is the seed of a new head, where it is not that of the
    training: trainings that begin alike can be averaged.

    Example:
        >>> from hf_pct.update import Recipe
        >>> Recipe("plain", "none", "cross-entropy from the old model", "plain", plain=True).length
        1.0
    """

    name: str
    method: str
    why: str
    family: str
    settings: Mapping[str, float] = field(default_factory=dict)
    start: str = "old"
    seed: int = 0
    plain: bool = False
    sweep: str = ""
    length: float = 1.0
    uses: tuple[Recipe, ...] = ()
    role: str = CANDIDATE
    head: int | None = None

    @property
    def head_seed(self) -> int:
        return self.seed if self.head is None else self.head

    def to_dict(self) -> dict[str, object]:
        """Every field, but for the last four at their defaults: they came later, and folders are named by this."""
        later = {entry.name: entry.default for entry in fields(self)[-4:]}
        values = {name: value for name, value in vars(self).items() if name not in later or value != later[name]}
        if self.uses:
            values["uses"] = [recipe.to_dict() for recipe in self.uses]
        return {**values, "settings": dict(self.settings)}


@dataclass(frozen=True)
class Case:
    """What the plan depends on."""

    same_architecture: bool
    added_classes: int
    base_model: bool
    old_is_plain_start: bool = True
    predictions_only: bool = False
    old_logits: bool = True
    two_forwards: bool = False
    images: bool = False

    def describe(self) -> str:
        if self.predictions_only:
            distilled = "its logits are distilled, and " if self.old_logits else ""
            said = (
                f"only predictions of the old model: {distilled}policies decide between its answers and the new ones"
            )
        elif not self.same_architecture:
            said = "another architecture or tokenizer: nothing can be merged, distillation with its weight chosen"
        elif self.added_classes:
            said = f"same architecture, {self.added_classes} classes added: trained from the old model and merged"
        else:
            said = "same architecture, same classes: trained from the old model and merged along alpha"
        return said + (", or fused: two forwards are allowed" if self.two_forwards else "")


def wishes(
    case: Case, methods: Sequence[str] | None = None, start: str = "auto", seed: int = 0
) -> list[tuple[Recipe, ...]]:
    """Everything worth training in this case, most promising first; what stands in one group is of use only whole."""
    old = case.same_architecture and start != "anew" and not case.predictions_only
    light, plain = _first(old, seed)
    dynamic = case.images and (methods is None or "fd-dynamic" in methods)
    lead, *others, paper = _pulls(light, old, dynamic)
    again = [
        replace(
            lead, name=f"{lead.family}, seed {seed + k}", why="one more for the soup", seed=seed + k,
            head=None if old else seed,
        )
        for k in (1, 2, 3, 4, 5)
    ]  # fmt: skip
    asked = [recipe for recipe in _asked_for(methods, light, plain) if not _alike(recipe, lead)]
    if old:
        anew = replace(plain, name="anew", family="anew", why="from the base model: the other yardstick", start="anew")
        first = [again[0], *([anew] if case.base_model else [])]
        single = [lead, plain, *first, *asked, *again[1:3]]
        margin = _strengths("margin", light, plain) if case.added_classes and "margin" not in (methods or ()) else []
        single += [*margin, *others, *again[3:], paper]
        if methods is None:
            single += _asked_for(LATER_SWEEPS, light, plain)
    else:
        # nothing can be merged with the old model, so accuracy is only safe beside a plain one; photo models that were
        # trained from one pretrained network can be averaged, which gives more than another strength
        single = [plain, lead, *(again[:1] if dynamic else []), *others, paper, *asked]
    wanted = set(methods or (*OWN, *taught_methods(), *LATER_SWEEPS))
    groups = [(recipe,) for recipe in single if _wanted(recipe, wanted) and _possible(recipe, case)]
    students = [_taught(name, plain) for name in taught_methods() if name in wanted and (methods or not old)]
    return [*groups, *students]


def _alike(recipe: Recipe, other: Recipe) -> bool:
    return (recipe.method, recipe.settings) == (other.method, other.settings)


def soup_name(recipes: Sequence[Recipe]) -> str:
    """How the mean of some trainings is called; a single one by its family.

    Example:
        >>> from hf_pct.update import Recipe
        >>> from hf_pct.update.planning.recipes import soup_name
        >>> light, plain = Recipe("a", "fd-lm", "", "light"), Recipe("b", "none", "", "plain")
        >>> soup_name([light, light, plain])
        'soup of 2 light and 1 plain'
    """
    families = Counter(recipe.family for recipe in recipes)
    if len(recipes) == 1:
        return recipes[0].family
    return "soup of " + " and ".join(f"{count} {family}" for family, count in families.items())


def mixture(recipes: Sequence[Recipe], methods: Sequence[str] | None = None) -> tuple[Recipe, ...]:
    """The trainings whose mean is a candidate at no further training: those that start from the same weights.

    Trainings that go on from one model lie in one basin, whatever their treatment, so their mean is a soup like one of
    several seeds. From the old model only light ones are mixed: a strong one is a candidate beside the soup.
    """
    if not recipes or (methods is not None and "soup" not in methods):
        return ()
    start = recipes[0].start
    chosen = [recipe for recipe in recipes if recipe.start == start and recipe.role == CANDIDATE and not recipe.uses]
    if start == "old":
        chosen = [recipe for recipe in chosen if not recipe.sweep]
    else:
        chosen = [recipe for recipe in chosen if recipe.head_seed == recipes[0].head_seed]  # others start elsewhere
    return tuple(chosen) if len({recipe.family for recipe in chosen}) > 1 else ()


def _first(old: bool, seed: int) -> tuple[Recipe, Recipe]:
    """The two that come before all others: a light distillation, and no treatment at all."""
    source, where = ("old", "from the old model") if old else ("anew", "from the base model")
    light = Recipe(
        "fd-lm light", "fd-lm", f"a light pull toward the old logits {where}: fewer flips at no cost in accuracy",
        "fd-lm light", swept_methods()["fd-lm"][0], source, seed,
    )  # fmt: skip
    plain = Recipe("plain", "none", f"cross-entropy {where}: the yardstick", "plain", {}, source, seed, plain=True)
    return light, plain


def _pulls(light: Recipe, old: bool, dynamic: bool) -> list[Recipe]:
    """Distillations, most promising first, and the paper's own weights last.

    From the old model a light pull costs no accuracy; of networks that start elsewhere a medium one did best (T4).
    `dynamic` puts the pull before both that only holds rows of which the old model is surer: on images it gives
    accuracy and takes flips (`python -m benchmarks.updates --along_alpha cifar10`).
    """
    weights = swept_methods()["fd-lm"]
    medium, paper = (
        replace(light, name=f"fd-lm {name}", family=f"fd-lm {name}", why=why, settings=settings, sweep="fd-lm")
        for name, why, settings in (
            ("medium", "a stronger pull, in case it costs nothing here", weights[1]),
            ("paper", "the paper's own weights", weights[2]),
        )
    )
    if dynamic:
        why = "a pull toward the old answers where the old model is surer of the label: fewer flips, and more accuracy"
        settings = swept_methods()["fd-dynamic"][-1]
        held = replace(light, name="fd-dynamic", family="fd-dynamic", method="fd-dynamic", why=why, settings=settings)
        return [held, medium, light, paper]
    return [light, medium, paper] if old else [medium, light, paper]


def _taught(method: str, plain: Recipe) -> tuple[Recipe, ...]:
    """Further members beside the plain model, then a patient student that goes on from it."""
    members = [
        replace(
            plain, name=f"member {number}", family=f"member {number}", why="one more for the ensemble",
            seed=plain.seed + 100 + number, plain=False, role=MEMBER,
        )
        for number in range(2, MEMBERS + 1)
    ]  # fmt: skip
    student = Recipe(
        method, method, f"a patient student, near the mean of {MEMBERS} plain models and near the old one", method,
        {}, plain.start, plain.seed, length=PATIENCE, uses=(plain, *members),
    )  # fmt: skip
    return (*members, student)


def swept_methods() -> dict[str, tuple[Mapping[str, float], ...]]:
    """Every registered training method that declares strengths, with these from light to strong."""
    from ...methods.base import TrainingMethod, WeightMethod
    from ...methods.registry import methods_of

    registered = {**methods_of(TrainingMethod), **methods_of(WeightMethod)}
    return {name: method.strengths for name, method in registered.items() if method.strengths}


def taught_methods() -> list[str]:
    """Every registered method whose student learns from members."""
    from ...methods.base import TrainingMethod
    from ...methods.registry import methods_of

    return [name for name, method in methods_of(TrainingMethod).items() if method.needs.members]


def known_methods() -> list[str]:
    """What `methods` may name."""
    return list(dict.fromkeys([*OWN, *taught_methods(), *swept_methods()]))


def _asked_for(methods: Sequence[str] | None, light: Recipe, plain: Recipe) -> list[Recipe]:
    """Recipes of methods that were asked for by name, one per strength."""
    own = ("plain", "fd-lm", "soup", "anew", *taught_methods())
    return [recipe for name in methods or () if name not in own for recipe in _strengths(name, light, plain)]


def _strengths(name: str, light: Recipe, plain: Recipe) -> list[Recipe]:
    """One recipe per strength of a method; a method that needs an independent model gets the plain one."""
    from ...methods.base import TrainingMethod
    from ...methods.registry import methods_of

    loss = methods_of(TrainingMethod).get(name)
    recipes = []
    for settings in swept_methods().get(name, ()):
        said = ", ".join(f"{key} {value:g}" for key, value in settings.items())
        recipes.append(
            replace(
                light, name=f"{name} {said}", family=f"{name} {said}", why=f"{name} at one of its strengths",
                method=name if loss else "none", settings=settings, sweep=name,
                uses=(plain,) if loss and "independent" in loss.needs.references else (),
            )
        )  # fmt: skip
    return recipes


def _wanted(recipe: Recipe, wanted: set[str]) -> bool:
    if recipe.plain:
        return ("anew" if recipe.name == "anew" else "plain") in wanted
    if recipe.sweep and recipe.sweep != "fd-lm":
        return recipe.sweep in wanted
    return recipe.method in wanted and ("soup" in wanted or ", seed " not in recipe.name)


def _possible(recipe: Recipe, case: Case) -> bool:
    """Distillation needs the old model's logits; holding weights needs its weights."""
    from ...methods.base import WeightMethod
    from ...methods.registry import methods_of

    if recipe.sweep in methods_of(WeightMethod):
        return case.same_architecture and not case.predictions_only
    return recipe.method == "none" or case.old_logits
