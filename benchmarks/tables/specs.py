"""From a YAML file to the rows of a table and the cells behind them; everything wrong with the file is said at once.

A **cell** is one model: trained, averaged or merged. Its spec holds all that decides how it comes out (data, model,
method, settings, seed, and the ids of the cells it depends on), and its id is a readable name with a hash of the spec.
So the same spec is the same cell, in whichever row or table it stands, and is trained once.

In the file, `cells` are templates: a row asks for one at each of the table's seeds. Two models of an update should not
have the same run seed, or they would see their training rows in the same order.

    small:    {train: none, model: resnet10}                            # run seed = the row's seed
    new:      {train: none, model: resnet10, seed: 3}                   # run seed = the row's seed + 3
    fd:       {train: fd-lm, model: resnet10, seed: 3, old: small, settings: {beta: 5}}
    few_rows: {train: none, model: resnet10, rows: 500}                 # the first 500 training rows
    margin:   {train: margin, model: resnet10, old: small, independent: new}            # or {mean: new, of: 6, ...}
    tuned:    {train: none, start: small, seed: 3, recipe: {num_train_epochs: 4}}
    ensemble: {mean: small, of: 8, take: 4, first: 1}                   # 4 of the runs 1 to 8; each seed moves on by 1
    student:  {train: elodi, model: resnet10, seed: 100, members: {mean: small, of: 8, take: 4, first: 1}}
    merged:   {merge: linear, old: small, new: tuned, alpha: contract}
    linear:   {merge: linear, old: small, new: tuned, alpha: [0.2, 0.4]}  # a sweep: linear@0.2 and linear@0.4

A row is an update, or with `versions` a chain of them, and the row that its NFR is compared with, seed by seed: the
first one if it does not say, and none for a row that others are compared with.

    {name: FD-LM, old: small, new: fd, against: none}
    {name: by contract, old: small, new: tuned, sweep: linear}   # the alpha that development rows choose for each seed
    {name: a second strength, old: small, new: fd_2, seeds: [1]}  # not at every seed
    {name: cost ratio, versions: [v1, v2, v3], policy: {rule: cost-ratio, budget: 0.3}}  # answers decided row by row
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import yaml

from benchmarks.tables.vocabulary import RECIPES, check_template, check_top, part_of

CONFIGS = Path(__file__).resolve().parent / "configs"
QUICK = {"train": 160, "test": 160, "dev": 80}
_LINKS = ("start", "old", "new", "members", "independent")


@dataclass(frozen=True)
class Cell:
    """One model: what it is called, and everything that decides how it comes out."""

    id: str
    spec: dict[str, Any]

    @classmethod
    def of(cls, name: str, spec: Mapping[str, Any]) -> Cell:
        text = json.dumps(spec, sort_keys=True, separators=(",", ":"))
        return cls(f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:10]}", json.loads(text))

    @property
    def needs(self) -> list[str]:
        """The ids of the cells whose weights (or logits) this one is made from."""
        linked = (self.spec.get(link) or [] for link in _LINKS)
        return list(dict.fromkeys(id_ for ids in linked for id_ in ([ids] if isinstance(ids, str) else ids)))


@dataclass(frozen=True)
class Line:
    """A line of the table: its name, for each seed the cells of the old and the new model, and the line to beat.

    `sweeps` are for each seed the merged cells by alpha, of which the report takes one in place of the new cell. With
    a `policy`, `chains` has for each seed the cells of all versions, from whose answers the policy decides each row.
    """

    name: str
    pairs: dict[int, tuple[str, str]]
    against: str
    sweeps: dict[int, dict[float, str]] = field(default_factory=dict)
    chains: dict[int, list[str]] = field(default_factory=dict)
    policy: Mapping[str, Any] = field(default_factory=dict)

    def cells(self) -> list[str]:
        """Every cell that the line may show."""
        swept = [cell for cells in self.sweeps.values() for cell in cells.values()]
        chained = [cell for cells in self.chains.values() for cell in cells]
        return list(dict.fromkeys([*(cell for pair in self.pairs.values() for cell in pair), *swept, *chained]))


@dataclass(frozen=True)
class Table:
    """A table as its file describes it, checked."""

    name: str
    title: str
    paper: str
    caption: str
    seeds: tuple[int, ...]
    lines: tuple[Line, ...]
    cells: dict[str, Cell]

    def closure(self, ids: Iterable[str]) -> list[str]:
        """These cells and all that they depend on, what is needed first."""
        visited: dict[str, None] = {}

        def visit(id_: str) -> None:
            if id_ not in visited:
                for need in self.cells[id_].needs:
                    visit(need)
                visited[id_] = None

        for id_ in ids:
            visit(id_)
        return list(visited)


def table_path(name: str) -> Path:
    path = CONFIGS / f"{name}.yaml"
    if not path.is_file():
        raise SystemExit(f"There is no table {name!r}: expected one of {', '.join(_table_names())}.")
    return path


def _table_names() -> list[str]:
    """T1, T2 and so on, in this order, and then those with a name."""
    stems = sorted(path.stem for path in CONFIGS.glob("*.yaml") if path.stem != "recipes")
    return sorted(stems, key=lambda stem: int(stem[1:]) if stem[1:].isdigit() else len(stems))


def all_tables() -> list[Table]:
    """Every table that has a file, in the order of their numbers."""
    return [read_table(table_path(name)) for name in _table_names()]


def read_table(path: Path, quick: bool = False) -> Table:
    """A table from its YAML file. `quick` leaves one seed, one epoch and a few hundred rows."""
    values = yaml.safe_load(path.read_text(encoding="utf-8"))
    problems = check_top(values)
    templates = values.get("cells", {}) if isinstance(values, dict) else {}
    if not problems:
        for name, template in templates.items():
            problems += check_template(name, template, templates, values.get("data", {}).get("name"))
        problems += _circles(templates)
    if problems:
        raise ValueError(f"{path.name} does not describe a table:\n  " + "\n  ".join(problems))
    return _Builder(path.stem, values, quick).table()


class _Builder:
    """Makes the cells that the rows of one file ask for."""

    def __init__(self, name: str, values: dict[str, Any], quick: bool) -> None:
        self.name, self.values, self.quick = name, values, quick
        self.seeds = tuple(values["seeds"])[: 1 if quick else None]
        self.data = dict(values["data"])
        if quick:
            self.data |= {part: min(rows, self.data[part]) for part, rows in QUICK.items() if part in self.data}
        self.recipe = RECIPES[values["recipe"]]
        self.cells: dict[str, Cell] = {}

    def table(self) -> Table:
        values, lines = self.values, []
        rows = values["rows"]
        yardsticks = {row["against"] for row in rows if "against" in row}
        for row in rows:
            versions = row.get("versions") or [row["old"], row["new"]]
            seeds = {seed: at for at, seed in enumerate(self.seeds) if seed in row.get("seeds", self.seeds)}
            made = {seed: [self.cell(name, seed, at) for name in versions] for seed, at in seeds.items()}
            sweeps = {seed: self.swept(row["sweep"], seed, at) for seed, at in seeds.items() if "sweep" in row}
            against = row.get("against", row["name"] if row["name"] in yardsticks else rows[0]["name"])
            if "policy" in row:
                ends = {seed: (chain[0], chain[-1]) for seed, chain in made.items()}
                lines.append(Line(row["name"], ends, against, chains=made, policy=row["policy"]))
                continue
            for i, j in combinations(range(len(versions)), 2):
                step = "" if len(versions) == 2 else f": v{i + 1} -> v{j + 1}"
                pairs = {seed: (chain[i], chain[j]) for seed, chain in made.items()}
                lines.append(Line(row["name"] + step, pairs, against + step, sweeps))
        return Table(
            self.name, values["title"], values["paper"], " ".join(values["caption"].split()), self.seeds,
            tuple(lines), self.cells,
        )  # fmt: skip

    def cell(self, name: str, seed: int, at: int) -> str:
        """The id of template `name` for a row's seed, which is the `at`-th of the table."""
        name, _, alpha = name.partition("@")
        template = self.values["cells"][name]
        if alpha:
            template = {**template, "alpha": float(alpha)}
        if "mean" in template:
            spec: dict[str, Any] = {"kind": "mean", "data": self.data, "members": self.pool(template, at)}
            return self.keep(f"{self.data['name']}-mean-of-{template['take']}", spec)
        if "merge" in template:
            return self.merged(template, seed, at)
        return self.trained(template, seed, at)

    def swept(self, name: str, seed: int, at: int) -> dict[float, str]:
        """A sweep's cells by alpha."""
        return {alpha: self.cell(f"{name}@{alpha}", seed, at) for alpha in self.values["cells"][name]["alpha"]}

    def pool(self, asked: Mapping[str, Any], at: int) -> list[str]:
        """`take` of the runs 1 to `of`, from `first` on; every seed starts one further, and the runs form a ring."""
        places = [(asked["first"] - 1 + at + number) % asked["of"] for number in range(asked["take"])]
        return sorted(self.cell(asked["mean"], place + 1, 0) for place in places)

    def merged(self, template: Mapping[str, Any], seed: int, at: int) -> str:
        news = template["new"] if isinstance(template["new"], list) else [template["new"]]
        spec = {
            "kind": "merge", "data": self.data, "method": template["merge"], "alpha": template["alpha"],
            "part": template.get("part", "all"), "old": [self.cell(template["old"], seed, at)],
            "new": [self.cell(name, seed, at) for name in news],
        }  # fmt: skip
        run = spec["new"][0].split("-")[-2]  # names, too, follow from the spec alone
        return self.keep(f"{self.data['name']}-{template['merge']}-{template['alpha']}-{run}", spec)

    def trained(self, template: Mapping[str, Any], seed: int, at: int) -> str:
        run, method = seed + template.get("seed", 0), template["train"]
        olds = template.get("old", [])
        recipe = {**self.recipe, **template.get("recipe", {})}
        settings = dict(template.get("settings", {}))
        if self.quick:
            recipe["num_train_epochs"] = 1
            settings |= {"member_epochs": 1} if "member_epochs" in settings else {}
        start = template.get("start")
        spec: dict[str, Any] = {
            "kind": "train", "data": self.data, "part": template.get("part", "all"), "method": method,
            "settings": settings, "recipe": recipe, "seed": run, "model": template.get("model"),
            "start": self.cell(start, seed, at) if start else None,
            "old": [self.cell(name, seed, at) for name in ([olds] if isinstance(olds, str) else olds)],
            "members": self.pool(template["members"], at) if "members" in template else [],
        }  # fmt: skip
        # what is not asked for is not in the spec, so that a new key leaves the ids of older cells as they were
        spec |= {key: template[key] for key in ("drop_rate", "keep_head", "rows", "head_seed") if key in template}
        if self.quick and "rows" in spec:
            spec["rows"] = min(spec["rows"], self.data["train"])
        if "independent" in template:
            asked = template["independent"]
            spec["independent"] = self.cell(asked, seed, at) if isinstance(asked, str) else self.pool(asked, at)
        part = "" if spec["part"] == "all" else f"-{spec['part']}"
        part += f"-first-{spec['rows']}" if "rows" in spec else ""
        what = template.get("model") or "tuned"
        return self.keep(f"{self.data['name']}{part}-{what}-{method}-r{run}", spec)

    def keep(self, name: str, spec: Mapping[str, Any]) -> str:
        cell = Cell.of(name.replace("_", "-"), spec)
        self.cells[cell.id] = cell
        return cell.id


def _circles(templates: Mapping[str, Any]) -> list[str]:
    """Templates that depend on themselves."""
    done: set[str] = set()
    problems: list[str] = []

    def visit(name: str, trail: tuple[str, ...]) -> None:
        if name in trail:
            problems.append(f"cells depend on themselves: {' -> '.join([*trail[trail.index(name) :], name])}")
        elif name not in done and name in templates:
            for need in part_of(templates[name]):
                visit(need, (*trail, name))
            done.add(name)

    for name in templates:
        visit(name, ())
    return problems
