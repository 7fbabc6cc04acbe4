"""The cost of a training step over points and functions, after the paper's Figures 2-3 and Tables 3, 6 and 7.

    seponet bench scaling                    # time and memory of a step
    seponet bench scaling --only burgers --budget 10min
    seponet bench scaling --train            # errors, as many steps for all cells of a problem and model

Four models: SepONet with the CP decoder (the paper's) and with the Tucker decoder; the PI-DeepONet as the paper
benchmarks it (every point repeated for every function, reverse mode, the whole batch at once) and the PI-DeepONet done
well (a trunk shared by all functions, forward mode, in slabs). All else is the paper's recipe: sizes, soft conditions,
Adam. A cell that would not fit in memory, or whose step would take more than 30 s, is predicted by `plan` and not run.
"""

import math
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from study import Cell, Finished, Study

MODELS = ("seponet_cp", "deeponet_repeated", "seponet_tucker", "deeponet")
PROBLEMS = ("burgers", "diffusion_reaction", "advection", "nonlinear_diffusion")
POINTS = (8, 16, 32, 64, 128)
FUNCTIONS = (5, 10, 20, 50)
EXTREME = tuple((n, f) for n in (128, 256, 512) for f in (400, 800))

SLOWEST = 30.0
"""Seconds that a step may take to be measured."""
SHARE = 0.8
"""Of the free memory that a cell may take."""
MATMUL_MULTIPLE = 3.0
"""A step's time over that of its matrix products, where nothing of its kind was measured."""
PARTS: Mapping[str, Mapping[str, int]] = {
    "seponet_cp": {"diffusion_reaction": 5, "advection": 10, "burgers": 10, "nonlinear_diffusion": 20},
    "seponet_tucker": {"diffusion_reaction": 5, "advection": 10, "burgers": 10, "nonlinear_diffusion": 20},
    "deeponet": {"diffusion_reaction": 25, "advection": 50, "burgers": 50, "nonlinear_diffusion": 80},
    "deeponet_repeated": {"diffusion_reaction": 100, "advection": 200, "burgers": 400, "nonlinear_diffusion": 400},
}
"""Errors are those after the paper's steps divided by this, the schedule compressed: the same for all sizes."""

FEASIBLE = 1800.0
"""Seconds that the training of a cell may take."""


@dataclass(frozen=True)
class Size(Cell):
    """A model, a problem and the size of a step; `points` are those along each axis."""

    problem: str
    model: str
    points: int
    functions: int


def cells() -> tuple[Size, ...]:
    """All problems for one model before the next; small sizes first, since large ones are predicted from them."""
    sweeps = ([(n, 100) for n in POINTS], [(128, f) for f in FUNCTIONS])
    made = [Size(p, model, *size) for sweep in sweeps for model in MODELS for p in PROBLEMS for size in sweep]
    made += [Size("burgers", model, *size) for model in ("seponet_cp", "seponet_tucker") for size in EXTREME]
    return tuple(made)


def recipe_of(cell: Size) -> Any:
    """The paper's recipe with another size, model or decoder."""
    from seponet.runs.recipes import load_recipe

    base = load_recipe("paper", cell.problem)
    changes: dict[str, Any] = {"train.sampling.points": cell.points, "train.functions": cell.functions}
    if cell.model == "seponet_tucker":
        changes |= {"model.decoder": "tucker", "model.rank": 12 if cell.problem == "nonlinear_diffusion" else 24}
    elif cell.model != "seponet_cp":
        changes["model.kind"] = cell.model
    if cell.model == "deeponet_repeated":
        # As in the paper the batch is taken as a whole: every point is a row.
        changes["train.slab"] = cell.points ** (3 if cell.problem == "nonlinear_diffusion" else 2)
    return base.changed(changes)


@cache
def prepare(cell: Size) -> tuple[Any, Any]:
    """The training step and the plan of its cost, whose memory is asked of the compiler."""
    import jax

    from seponet import nn
    from seponet.problems import PROBLEMS as KNOWN
    from seponet.training.cost import choose_slab, estimate_cost
    from seponet.training.step import TrainStep

    recipe = recipe_of(cell)
    model = nn.build(KNOWN[cell.problem](), recipe.model, key=jax.random.key(0))
    slab = recipe.train.slab or choose_slab(model, cell.functions)
    stepper = TrainStep(model, recipe.train, slab, jax.random.key(1))
    return stepper, estimate_cost(model, cell.functions, cell.points, slab)


def predict(cell: Size, finished: Finished) -> Mapping[str, Any] | None:
    """The cost by `plan`, in proportion to the largest measured cell of the same problem and model."""
    from seponet._machine import available_memory, matmul_rate

    stepper, cost = prepare(cell)
    kin = [
        o.result
        for o in finished.values()
        if o.measured and o.cell["problem"] == cell.problem and o.cell["model"] == cell.model
    ]
    free = available_memory() or math.inf
    # What separable models need in slabs is flat, so it need not be compiled to be known to fit.
    flat = cell.model.startswith("seponet") and kin
    size = max(result["temporary_bytes"] for result in kin) if flat else stepper.memory()
    estimate = extrapolate(cost.flops, size, kin, matmul_rate())
    if estimate["bytes"] <= SHARE * free and estimate["seconds"] <= SLOWEST:
        return None
    return {**estimate, "reason": "memory" if estimate["bytes"] > SHARE * free else "time", "free_bytes": free}


def extrapolate(flops: float, size: float, kin: list[Mapping[str, Any]], rate: float) -> dict[str, float]:
    """Seconds and bytes of a step from its plan and from measured steps of its kind: `flops` and `temporary_bytes`."""
    if not kin:
        return {"seconds": MATMUL_MULTIPLE * flops / rate, "bytes": size, "flops": flops, "temporary_bytes": size}
    near = max(kin, key=lambda result: result["flops"])
    wide = max(kin, key=lambda result: result["temporary_bytes"])
    return {
        "seconds": near["seconds"] * flops / near["flops"],
        "bytes": max(size, wide["bytes"] * size / wide["temporary_bytes"]),
        "flops": flops,
        "temporary_bytes": size,
    }


def measure(cell: Size) -> Mapping[str, Any]:
    """Median seconds of a step, its memory as compiled, and what the process has had at most."""
    import jax
    import jax.numpy as jnp

    from seponet._machine import peak_memory_bytes

    before = peak_memory_bytes()
    stepper, cost = prepare(cell)
    state = stepper.start()
    analysis = stepper.compile().memory_analysis()

    def steps(state: Any, count: int) -> tuple[Any, float]:
        began = time.perf_counter()
        state, record = stepper.run(state, jnp.asarray(count))
        jax.block_until_ready(record.loss)
        return state, (time.perf_counter() - began) / count

    state, first = steps(state, 1)
    state, first = steps(state, 1) if first < SLOWEST / 2 else (state, first)
    # Blocks of a fifth of a second, so that the dispatch doesn't count; five of them, fewer where a step is long.
    block = max(1, min(50, int(0.2 / first)))
    times: list[float] = []
    for _ in range(5 if first < 2 else 2 if first < 8 else 1):
        state, seconds = steps(state, block)
        times.append(seconds)
    return {
        "seconds": statistics.median(times),
        "seconds_fastest": min(times),
        "repeats": len(times),
        "block": block,
        "bytes": analysis.temp_size_in_bytes + analysis.argument_size_in_bytes + analysis.output_size_in_bytes,
        "temporary_bytes": analysis.temp_size_in_bytes,
        "process_bytes": peak_memory_bytes(),
        "process_bytes_before": before,
        "flops": cost.flops,
        "slab": cost.slab,
    }


def steps_of(problem: str, model: str) -> int:
    """The steps of all trainings of a problem and model."""
    import published

    return published.steps(problem) // PARTS[model][problem]


def predict_training(cell: Size, _: Finished) -> Mapping[str, Any] | None:
    """Training is not tried where a step could not even be measured, or all of them would take too long."""
    costs = STUDY.finished().get(cell.id)
    expected = dict(costs.result) if costs else predict(cell, STUDY.finished())
    if expected is None:
        return None
    whole = expected["seconds"] * steps_of(cell.problem, cell.model)
    possible = costs is not None and costs.measured and whole <= FEASIBLE
    return None if possible else {"training_seconds": whole, "reason": expected.get("reason", "time")}


def measure_training(cell: Size) -> Mapping[str, Any]:
    """The error on unseen functions after a part of the steps of the paper's recipe, its schedule compressed."""
    from training import compressed, train_whole

    return train_whole(cell.problem, compressed(recipe_of(cell), steps_of(cell.problem, cell.model)))


def price(cells: Sequence[Size]) -> list[float]:
    """The seconds of trainings; those that will not be run take none."""
    measured = {name: outcome.result["seconds"] for name, outcome in STUDY.finished().items()}
    times = [measured.get(cell.id, 0.0) * steps_of(cell.problem, cell.model) for cell in cells]
    return [seconds if seconds <= FEASIBLE else 0.0 for seconds in times]


STUDY = Study("scaling", cells(), measure, __file__, predict, limit=150.0)
ERRORS = Study(
    "scaling_error",
    cells(),
    measure_training,
    __file__,
    predict_training,
    ("--train",),
    limit=2 * FEASIBLE,
    settings=lambda cell: {"steps": steps_of(cell.problem, cell.model)},
    price=price,
)


def render() -> None:
    # Not imported in the processes of cells, whose memory is measured.
    import scaling_figures
    import scaling_tables

    scaling_tables.write(STUDY.finished(), ERRORS.finished())
    scaling_figures.write(STUDY.finished(), ERRORS.finished())


if __name__ == "__main__":
    arguments = sys.argv[1:]
    chosen = ERRORS if "--train" in arguments else STUDY
    sys.exit(chosen.main([word for word in arguments if word != "--train"], render))
