"""Scaling laws, the paper's open question: error against functions, points, rank, width, parameters and compute.

    seponet bench laws                        # all seeds, about two hours on one core
    seponet bench laws --only learned burgers 0
    seponet bench laws --render               # fits, table and figure from what is stored

Burgers and diffusion-reaction, each with learned trunks (the paper's recipe) and with classical ones (`quick`). One
quantity is changed at a time, the others stay at the base's, 100%: so an exponent says what that quantity buys where
the others are what they are, and a floor what they leave. Errors are those of 100 unseen functions.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from study import Cell, Study

PROBLEMS = ("diffusion_reaction", "burgers")
TRUNKS = ("learned", "classical")
SEEDS = (0, 1, 2)

AXES: Mapping[str, tuple[int, ...]] = {
    "base": (100,),
    "functions": (100, 400, 1600, 6400, 25600),
    "points": (25, 50, 75, 150),
    "rank": (25, 50, 75, 125),
    "width": (12, 25, 50, 200),
    "steps": (6, 12, 25, 50, 200),
}
"""The values of each quantity: different functions in the whole training; of all else, per cent of the base's. Ranks
stay below the points of classical trunks, beyond which there is nothing to fit them to."""

STEPS = {"learned": {"diffusion_reaction": 10_000, "burgers": 8_000}, "classical": dict.fromkeys(PROBLEMS, 3_000)}
POINTS = 32
"""Steps of the base, and points along each axis with learned trunks; with classical ones they are the recipe's."""


@dataclass(frozen=True)
class Law(Cell):
    """One training."""

    problem: str
    trunks: str
    axis: str
    value: int
    seed: int


def cells() -> tuple[Law, ...]:
    """A whole seed before the next, so that a study that was stopped has all laws."""
    return tuple(
        Law(problem, trunks, axis, value, seed)
        for seed in SEEDS
        for problem in PROBLEMS
        for trunks in TRUNKS
        for axis, values in AXES.items()
        for value in values
    )


def recipe_of(cell: Law) -> Any:
    """The base with one quantity changed."""
    from training import compressed

    from seponet.runs.recipes import load_recipe

    learned = cell.trunks == "learned"
    recipe = load_recipe("paper" if learned else "quick", cell.problem)
    if learned:
        # Nodes that stay: with random ones, fewer new functions would also mean fewer new points.
        recipe = recipe.changed({"train.sampling.points": POINTS, "train.sampling.method": "gauss"})
    part = cell.value / 100
    steps = STEPS[cell.trunks][cell.problem]
    recipe = compressed(recipe, max(10, round(steps * part)) if cell.axis == "steps" else steps)
    resample = max(1, round(recipe.train.functions * steps / cell.value)) if cell.axis == "functions" else 1
    changes: dict[str, Any] = {"train.sampling.resample": resample}
    if cell.axis == "points":
        changes["train.sampling.points"] = scaled(recipe.train.sampling.points, part)
    elif cell.axis == "rank":
        changes["model.rank"] = scaled(recipe.model.rank, part)
    elif cell.axis == "width":
        widths = ("branch_width", *(("trunk_width",) if learned else ()))
        changes |= {f"model.{name}": scaled(getattr(recipe.model, name), part) for name in widths}
    return recipe.changed(changes)


def scaled(value: Any, part: float) -> Any:
    """A number, or one for each axis, times a factor; no less than two."""
    if isinstance(value, Mapping):
        return {name: scaled(number, part) for name, number in value.items()}
    return max(2, round(value * part))


def measure(cell: Law) -> Mapping[str, Any]:
    """Errors, and all quantities in absolute numbers."""
    import jax
    from training import train_whole

    from seponet import nn
    from seponet.problems import PROBLEMS as KNOWN
    from seponet.training.cost import estimate_cost

    recipe = recipe_of(cell)
    train = recipe.train
    model = nn.build(KNOWN[cell.problem](), recipe.model, key=jax.random.key(0))
    cost = estimate_cost(model, train.functions, train.sampling.points)
    points, rank = train.sampling.points, recipe.model.rank
    return {
        **train_whole(cell.problem, recipe, seed=cell.seed),
        "functions": train.functions * -(-train.steps // train.sampling.resample),
        "points": volume(points, 2),
        "rank": volume(rank, 1),
        "width": recipe.model.branch_width,
        "flops": cost.flops * train.steps,
    }


def volume(value: Any, axes: int) -> int:
    """The product over the axes; of one number for all of them, its power."""
    if isinstance(value, Mapping):
        product = 1
        for number in value.values():
            product *= number
        return product
    return value**axes


def settings(cell: Law) -> Mapping[str, Any]:
    return {"recipe": recipe_of(cell).to_dict()}


STUDY = Study("laws", cells(), measure, __file__, limit=1200.0, settings=settings)


def render() -> None:
    # Not imported in the processes of cells, whose memory is measured.
    import laws_report

    laws_report.write(STUDY.finished())


if __name__ == "__main__":
    sys.exit(STUDY.main(render=render))
