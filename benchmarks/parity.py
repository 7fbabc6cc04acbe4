"""The `paper` recipe against the reference package: the same functions, points, test functions and initial weights.

    python benchmarks/parity.py     # with separable-operator-networks==0.0.2 (pip install '.[benchmark]'); 3 min

Every hundred steps both get the same 100 functions (the reference their values at its sensors) and the same points
along each axis. The reference's initial weights are copied into our model; a second run of ours has weights of its own.
Both are stopped after a few percent of the paper's steps, and evaluated on the same validation functions.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from results import RESULTS, machine, store

from seponet import nn
from seponet.locations import Grid
from seponet.metrics import compare, measure
from seponet.plan import choose_rows
from seponet.plots.style import LINES, TICK, new_figure, save_figure, style_lines
from seponet.problems import PROBLEMS
from seponet.recipe import Recipe, load_recipe
from seponet.step import Stepper, TrainState
from seponet.testset import TestSet, load_testset

CASES = ("diffusion_reaction", "burgers")
POINTS, EVERY = 32, 250

Curve = list[dict[str, float]]


def make_theirs(name: str, recipe: Recipe, seed: int) -> Any:
    """Their model with the paper's sizes."""
    from separable_operator_networks import models

    c = recipe.model
    sizes = (len(PROBLEMS[name]().domain), c.sensors, 1, c.trunk_depth, c.trunk_width, int(c.rank))  # pyright: ignore
    return models.SepONet(*sizes, key=jax.random.key(seed))  # pyright: ignore


def copy_weights(model: Any, theirs: Any) -> Any:
    """Our model with their weights; layers are the same, ours store them transposed."""

    def layers(m: Any) -> list[Any]:
        return [layer for net in (m.branch.body, *(t.network for t in m.trunks)) for layer in net.layers]

    # Their networks are mapped over points; what is mapped is kept under `_fun`.
    networks = [theirs.branch, *theirs.trunk]
    given = [layer for net in networks for layer in getattr(net, "_fun", net).layers]
    arrays = [a for layer in given for a in (layer.weight.T, layer.bias)]
    return eqx.tree_at(lambda m: [a for layer in layers(m) for a in (layer.weight, layer.bias)], model, arrays)


def sensed(functions: Any, sensors: int) -> jax.Array:
    """Values where the reference expects its sensors: both ends included, on periodic axes too."""
    (axis,) = functions.space.domain.names
    return functions(Grid((axis,), (jnp.linspace(0.0, 1.0, sensors),)))


def run_ours(stepper: Stepper, steps: int, error: Callable[[Any], float]) -> Curve:
    state, curve, began = stepper.start(), Curve(), time.perf_counter()
    while (done := int(state.step)) <= steps:
        curve.append({"step": done, "error": error(stepper.model(state)), "seconds": time.perf_counter() - began})
        state, _ = stepper.run(state, jnp.asarray(EVERY))
    return curve


def run_theirs(
    name: str, model: Any, stepper: Stepper, sensors: int, steps: int, error: Callable[[Any], float]
) -> Curve:
    """Their loss and their update, on the batches of our stepper."""
    from separable_operator_networks import pde, train

    loss = getattr(pde, name).apply_model_SepONet
    optimizer = optax.adam(optax.exponential_decay(1e-3, 1000, 0.9))
    memory = optimizer.init(eqx.filter(model, eqx.is_array))
    make_batch = eqx.filter_jit(stepper.batch)
    start: TrainState = stepper.start()
    curve, began = Curve(), time.perf_counter()
    batch: tuple[Any, ...] = ()
    for step in range(steps + 1):
        if step % stepper.config.resample == 0:
            made = make_batch(eqx.tree_at(lambda s: s.step, start, jnp.asarray(step)))
            t, x = (made.collocation.where[axis][:, None] for axis in ("t", "x"))
            ends, zero = [jnp.zeros((1, 1)), jnp.ones((1, 1))], jnp.zeros((1, 1))
            batch = (t, x, [t, t], ends, zero, x, sensed(made.inputs["u"], sensors))
        if step % EVERY == 0:
            curve.append({"step": step, "error": error(model), "seconds": time.perf_counter() - began})
        _, gradient = loss(model, *batch)
        model, memory = train.update(gradient, optimizer, memory, model)
    return curve


def error_of_theirs(testset: TestSet, sensors: int) -> Callable[[Any], float]:
    t, x = (jnp.asarray(testset.points[axis])[:, None] for axis in ("t", "x"))
    values = sensed(testset.inputs["u"], sensors)
    exact = {"s": testset.solution("s")}

    def error(model: Any) -> float:
        return float(np.mean(compare({"s": np.asarray(model(((t, x), values)))[..., 0]}, exact).relative_l2))

    return error


def follow(name: str, steps: int) -> dict[str, Any]:
    problem, recipe = PROBLEMS[name](), load_recipe("paper", name).changed({"train.points": POINTS})
    testset = load_testset(problem, "validation", 50)

    def error(model: Any) -> float:
        return float(np.mean(measure(model, testset).relative_l2))

    def stepper(model: Any) -> Stepper:
        return Stepper(model, recipe.train, choose_rows(model, recipe.train), jax.random.key(1))

    sensors = recipe.model.sensors
    reference = make_theirs(name, recipe, 0)
    own = nn.build(problem, recipe.model, key=jax.random.key(2))
    same = copy_weights(own, reference)
    curves = {
        "reference": run_theirs(name, reference, stepper(same), sensors, steps, error_of_theirs(testset, sensors)),
        "same weights": run_ours(stepper(same), steps, error),
        "own weights": run_ours(stepper(own), steps, error),
    }
    ours, theirs = (np.array([p["error"] for p in curves[who]]) for who in ("same weights", "reference"))
    return {
        "problem": name,
        "points": POINTS,
        "functions": recipe.train.functions,
        "test_functions": len(testset),
        "steps": steps,
        "part_of_the_paper's_steps": steps / recipe.train.steps,
        "largest_relative_difference": float(np.max(np.abs(ours / theirs - 1))),
        "curves": curves,
    }


def draw(rows: list[dict[str, Any]]) -> None:
    figure = new_figure(3.0)
    styles = {
        "reference": ("-", 3.0, "0.7"),
        "same weights": ("--", 1.3, LINES[0]),
        "own weights": ("-", 1.0, LINES[1]),
    }
    labels = {
        "reference": "reference package",
        "same weights": "here, its initial weights",
        "own weights": "here, own weights",
    }
    for axes, row in zip(figure.subplots(1, len(rows), squeeze=False)[0], rows, strict=True):
        for who, (line, width, colour) in styles.items():
            curve = row["curves"][who]
            across, up = [p["step"] for p in curve], [100 * p["error"] for p in curve]
            axes.plot(across, up, line, linewidth=width, color=colour, label=labels[who])
        part = 100 * row["part_of_the_paper's_steps"]
        title = f"{row['problem'].replace('_', ' ')}: the first {part:.2g}% of the paper's steps"
        style_lines(axes, title, "step", "mean relative $L^2$ error (%)")
        axes.set_yscale("log")
        axes.legend(fontsize=TICK, frameon=False)
    save_figure(figure, RESULTS.parent / "figures" / "parity.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=2000)
    steps = parser.parse_args().steps
    rows = []
    for name in CASES:
        rows.append(follow(name, steps))
        print(name, {who: f"{curve[-1]['error']:.4f}" for who, curve in rows[-1]["curves"].items()}, flush=True)
        store("parity", {"machine": machine(), "rows": rows})
    draw(rows)


if __name__ == "__main__":
    main()
