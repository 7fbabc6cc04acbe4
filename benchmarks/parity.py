"""The `paper` recipe against the reference package: the same functions, points, test functions and initial weights.

    seponet bench parity     # against separable-operator-networks==0.0.2, which is installed for it; 3 min

Every hundred steps both get the same 100 functions (the reference their values at its sensors) and the same points
along each axis. The reference's initial weights are copied into our model: the first loss and gradient then agree but
for the reference's linear interpolation of u between its sensors. Later the two part as any two runs do: a further run
of ours starts from the same weights times 1 + 1e-6, and another from weights of its own. All are stopped after a few
percent of the paper's steps, and evaluated on the same validation functions.
"""

import argparse
import contextlib
import io
import json
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from environments import make_importable
from results import RESULTS, machine, store

from seponet import nn
from seponet.drawing.style import LINES, TICK, new_figure, save_figure, style_lines
from seponet.evaluation.errors import compare, measure
from seponet.evaluation.testset import TestSet, load_testset
from seponet.locations import Grid
from seponet.nn.fixed import trainable
from seponet.problems import PROBLEMS
from seponet.runs.recipes import load_recipe
from seponet.training.cost import choose_slab
from seponet.training.recipe import Recipe
from seponet.training.state import Batch, TrainState
from seponet.training.step import TrainStep

CASES = ("diffusion_reaction", "burgers")
POINTS, EVERY = 32, 250

Curve = list[dict[str, float]]


def make_theirs(name: str, recipe: Recipe, seed: int) -> Any:
    """Their model with the paper's sizes."""
    make_importable("separable_operator_networks")
    from separable_operator_networks import models

    c = recipe.model
    sizes = (len(PROBLEMS[name]().domain), c.sensors, 1, c.trunk_depth, c.trunk_width, int(c.rank))  # pyright: ignore
    # It prints its contractions.
    with contextlib.redirect_stdout(io.StringIO()):
        return models.SepONet(*sizes, key=jax.random.key(seed))  # pyright: ignore


def copy_weights(model: Any, theirs: Any) -> Any:
    """Our model with their weights; layers are the same, ours store them transposed."""

    def layers(m: Any) -> list[Any]:
        return [layer for net in (m.branch.body, *(t.network for t in m.trunks)) for layer in net.layers]

    # Their networks are mapped over points; what is mapped is kept under `_fun`.
    networks = [theirs.branch, *theirs.trunk]
    their_layers = [layer for net in networks for layer in getattr(net, "_fun", net).layers]
    arrays = [a for layer in their_layers for a in (layer.weight.T, layer.bias)]
    return eqx.tree_at(lambda m: [a for layer in layers(m) for a in (layer.weight, layer.bias)], model, arrays)


def sensed(functions: Any, sensors: int) -> jax.Array:
    """Values where the reference expects its sensors: both ends included, on periodic axes too."""
    (axis,) = functions.space.domain.names
    return functions(Grid((axis,), (jnp.linspace(0.0, 1.0, sensors),)))


def run_ours(stepper: TrainStep, steps: int, error: Callable[[Any], float]) -> Curve:
    state, curve = stepper.start(), Curve()
    while (done := int(state.step)) <= steps:
        curve.append({"step": done, "error": error(stepper.model(state))})
        state, _ = stepper.run(state, jnp.asarray(EVERY))
    return curve


def run_theirs(
    name: str, model: Any, stepper: TrainStep, sensors: int, steps: int, error: Callable[[Any], float]
) -> Curve:
    """Their loss and their update, on the batches of our stepper."""
    from separable_operator_networks import pde, train

    loss = getattr(pde, name).apply_model_SepONet
    optimizer = optax.adam(optax.exponential_decay(1e-3, 1000, 0.9))
    memory = optimizer.init(eqx.filter(model, eqx.is_array))
    make_batch = eqx.filter_jit(stepper.batch)
    start: TrainState = stepper.start()
    curve, batch = Curve(), tuple[Any, ...]()
    for step in range(steps + 1):
        if step % stepper.config.sampling.resample == 0:
            batch = their_batch(make_batch(eqx.tree_at(lambda s: s.step, start, jnp.asarray(step))), sensors)
        if step % EVERY == 0:
            curve.append({"step": step, "error": error(model)})
        _, gradient = loss(model, *batch)
        model, memory = train.update(gradient, optimizer, memory, model)
    return curve


def their_batch(batch: Batch, sensors: int) -> tuple[Any, ...]:
    """The same functions and points as arguments of their loss."""
    t, x = (batch.collocation.where[axis][:, None] for axis in ("t", "x"))
    ends, zero = [jnp.zeros((1, 1)), jnp.ones((1, 1))], jnp.zeros((1, 1))
    return t, x, [t, t], ends, zero, x, sensed(batch.inputs["u"], sensors)


def compare_first(name: str, stepper: TrainStep, theirs: Any, sensors: int) -> dict[str, float]:
    """The losses of both on the first batch, and how far our gradient is from theirs, relative to its length."""
    from separable_operator_networks import pde

    state = stepper.start()
    batch = eqx.filter_jit(stepper.batch)(state)
    value = jax.jit(jax.value_and_grad(lambda w: stepper.loss(w, state.balance, batch, state.step)[0]))
    loss, gradient = value(state.parameters)
    loss_theirs, slope = getattr(pde, name).apply_model_SepONet(theirs, *their_batch(batch, sensors))
    difference = optax.tree.sub(copy_weights(gradient, slope), gradient)
    part = optax.tree.norm(difference) / optax.tree.norm(gradient)
    return {"loss": float(loss), "loss_reference": float(loss_theirs), "gradient_difference": float(part)}


def error_of_theirs(testset: TestSet, sensors: int) -> Callable[[Any], float]:
    t, x = (jnp.asarray(testset.points[axis])[:, None] for axis in ("t", "x"))
    values = sensed(testset.inputs["u"], sensors)
    exact = {"s": testset.solution("s")}

    def error(model: Any) -> float:
        return float(np.mean(compare({"s": np.asarray(model(((t, x), values)))[..., 0]}, exact).relative_l2))

    return error


def follow(name: str, steps: int) -> dict[str, Any]:
    problem, recipe = PROBLEMS[name](), load_recipe("paper", name).changed({"train.sampling.points": POINTS})
    testset = load_testset(problem, "validation", 50)

    def error(model: Any) -> float:
        return float(np.mean(measure(model, testset).relative_l2))

    def stepper(model: Any) -> TrainStep:
        return TrainStep(model, recipe.train, choose_slab(model, recipe.train.functions), jax.random.key(1))

    sensors = recipe.model.sensors
    reference = make_theirs(name, recipe, 0)
    independent = nn.build(problem, recipe.model, key=jax.random.key(2))
    same = copy_weights(independent, reference)
    weights, rest = eqx.partition(same, trainable(same))
    rounded = eqx.combine(jax.tree.map(lambda w: w * (1 + 1e-6), weights), rest)
    first = compare_first(name, stepper(same), reference, sensors)
    curves = {
        "reference": run_theirs(name, reference, stepper(same), sensors, steps, error_of_theirs(testset, sensors)),
        "same weights": run_ours(stepper(same), steps, error),
        "rounding": run_ours(stepper(rounded), steps, error),
        "own weights": run_ours(stepper(independent), steps, error),
    }
    ours, theirs, shaken = (
        np.array([p["error"] for p in curves[who]]) for who in ("same weights", "reference", "rounding")
    )
    return {
        "problem": name,
        "points": POINTS,
        "functions": recipe.train.functions,
        "test_functions": len(testset),
        "steps": steps,
        "part_of_the_paper's_steps": steps / recipe.train.steps,
        "first_batch": first,
        "mean_ratio_to_reference": float(np.exp(np.mean(np.log(ours / theirs)))),
        "largest_ratio_to_reference": float(np.exp(np.max(np.abs(np.log(ours / theirs))))),
        "largest_ratio_by_rounding": float(np.exp(np.max(np.abs(np.log(ours / shaken))))),
        "curves": curves,
    }


def draw(rows: list[dict[str, Any]]) -> None:
    figure = new_figure(3.0)
    styles = {
        "reference": ("-", 3.0, "0.7", "reference package"),
        "same weights": ("-", 1.3, LINES[0], "here, its initial weights"),
        "rounding": ("--", 1.0, LINES[2], "here, the same changed by $10^{-6}$"),
        "own weights": (":", 1.3, LINES[1], "here, own weights"),
    }
    for axes, row in zip(figure.subplots(1, len(rows), squeeze=False)[0], rows, strict=True):
        for who, (line, width, colour, label) in styles.items():
            curve = row["curves"][who]
            across, up = [p["step"] for p in curve], [100 * p["error"] for p in curve]
            axes.plot(across, up, line, linewidth=width, color=colour, label=label)
        part = 100 * row["part_of_the_paper's_steps"]
        title = f"{row['problem'].replace('_', ' ')}: the first {part:.2g}% of the paper's steps"
        style_lines(axes, title, "step", "mean relative $L^2$ error (%)")
        axes.set_yscale("log")
        errors = [p["error"] for curve in row["curves"].values() for p in curve]
        axes.set_yticks([n for n in (3, 5, 10, 20, 30, 50, 100) if n > 100 * min(errors)])
        axes.yaxis.set_major_formatter("{x:g}")
        axes.minorticks_off()
        axes.legend(fontsize=TICK, frameon=False)
    save_figure(figure, RESULTS.parent / "figures" / "parity.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--problems", nargs="+", choices=CASES, default=CASES)
    arguments = parser.parse_args()
    path = RESULTS / "parity.json"
    before = json.loads(path.read_text())["rows"] if path.exists() else []
    rows = [row for row in before if row["problem"] not in arguments.problems]
    for name in arguments.problems:
        rows.append(follow(name, arguments.steps))
        print(name, {who: f"{curve[-1]['error']:.4f}" for who, curve in rows[-1]["curves"].items()}, flush=True)
        store("parity", {"machine": machine(), "rows": rows})
    draw(rows)


if __name__ == "__main__":
    main()
