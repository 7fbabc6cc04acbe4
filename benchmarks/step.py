"""Time and memory of a training step, ours against the reference package, in one run.

    seponet bench step time      # against separable-operator-networks==0.0.2, which is installed for it
    seponet bench step memory    # ours, each size in a process of its own

Same problem, rank, width, depth, 100 functions, CP decoder, Adam, the paper's soft conditions. Both do what a step of
their trainer does: loss, gradient, update on a fixed batch. The matmul bound is the time of the contractions alone
(linear terms fused, times three for the backward pass) at the rate that this machine reaches between the steps; README
takes the highest rate of the run.
"""

import argparse
import contextlib
import io
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from environments import make_importable
from results import RESULTS, machine, store

from seponet import nn
from seponet.problems import PROBLEMS
from seponet.runs.recipes import load_recipe
from seponet.training.cost import choose_slab, estimate_cost
from seponet.training.recipe import Recipe
from seponet.training.step import TrainStep

CASES = {
    "diffusion_reaction 128^2": ("diffusion_reaction", 128, 0.18),
    "burgers 128^2": ("burgers", 128, 0.35),
    "advection 128^2": ("advection", 128, 0.41),
    "nonlinear_diffusion 32^3": ("nonlinear_diffusion", 32, 0.21),
    "nonlinear_diffusion 64^3": ("nonlinear_diffusion", 64, 0.21),
}


def ours(name: str, points: int, block: int, functions: int = 100) -> tuple[Callable[[], None], Any]:
    """One step of our trainer with the paper's recipe, and the plan of its cost."""
    recipe: Recipe = load_recipe("paper", name).changed({"train.sampling.points": points, "train.functions": functions})
    model = nn.build(PROBLEMS[name](), recipe.model, key=jax.random.key(0))
    cost = estimate_cost(model, functions, points)
    stepper = TrainStep(model, recipe.train, cost.slab, jax.random.key(1))
    state = stepper.start()
    state, _ = stepper.run(state, jnp.asarray(1))
    box = [state]

    def step() -> None:
        box[0], record = stepper.run(box[0], jnp.asarray(block))
        jax.block_until_ready(record.loss)

    return step, cost


def theirs(name: str, points: int, block: int, functions: int = 100) -> Callable[[], None]:
    """One step of the reference package."""
    make_importable("separable_operator_networks")
    from separable_operator_networks import models, pde, train

    config = load_recipe("paper", name).model
    axes = len(PROBLEMS[name]().domain)
    module = getattr(pde, name)
    suffix = {"diffusion_reaction": "DR", "advection": "ADV", "burgers": "Burgers"}.get(name, name)
    sensors = int(config.sensors) ** (axes - 1)
    sizes = axes, sensors, 1, config.trunk_depth, config.trunk_width, int(config.rank)  # pyright: ignore
    # It prints its contractions.
    with contextlib.redirect_stdout(io.StringIO()):
        model = models.SepONet(*sizes, key=jax.random.key(0))
    values = 1 + 0.1 * jax.random.normal(jax.random.key(1), (functions, sensors))
    if name == "nonlinear_diffusion":
        # Their generator reads a third key of two (see shared/peers.md); the points are drawn here instead.
        keys = jax.random.split(jax.random.key(2), 3)
        t, x, y = (
            jax.random.uniform(k, (points, 1), minval=lo, maxval=1.0) for k, lo in zip(keys, (0, -1, -1), strict=True)
        )
        ends = [jnp.array([[-1.0]]), jnp.array([[1.0]])]
        batch = (t, x, y, [t] * 4, [*ends, x, x], [y, y, *ends], jnp.array([[0.0]]), x, y, values)
    else:
        generate = getattr(module, f"SepONet_train_generator_{suffix}")
        batch = generate(values, functions, points, jax.random.key(2))
    optimizer = optax.adam(optax.exponential_decay(1e-3, 1000, 0.9))
    box: list[Any] = [model, optimizer.init(eqx.filter(model, eqx.is_array))]

    def step() -> None:
        for _ in range(block):
            _, gradient = module.apply_model_SepONet(box[0], *batch)
            box[0], box[1] = train.update(gradient, optimizer, box[1], box[0])
        jax.block_until_ready(box[0])

    step()
    return step


def product(size: int = 2000) -> tuple[Callable[[], None], float]:
    """A float32 product of square matrices, and its floating point operations."""
    a = jax.random.normal(jax.random.key(0), (size, size))
    multiply = jax.jit(jnp.matmul)

    def call() -> None:
        multiply(a, a).block_until_ready()

    call()
    return call, 2.0 * size**3


def compare(case: str, repeats: int) -> dict[str, Any]:
    name, points, target = CASES[case]
    began = time.perf_counter()
    # Steps between two looks at the clock, for both.
    block = 10 if name != "nonlinear_diffusion" else 2
    mine, cost = ours(name, points, block)
    compiled = time.perf_counter() - began
    other = theirs(name, points, block)
    multiply, operations = product()
    times: dict[str, list[float]] = {"ours": [], "theirs": [], "product": []}
    for _ in range(repeats):
        for who, call in (("ours", mine), ("theirs", other), ("product", multiply)):
            start = time.perf_counter()
            call()
            times[who].append(time.perf_counter() - start)
    rate = operations / statistics.median(times["product"])
    ms, ms_theirs = (1e3 * statistics.median(times[who]) / block for who in ("ours", "theirs"))
    bound = 1e3 * cost.flops_interior / rate
    return {
        "case": case,
        "ms": ms,
        "ms_reference": ms_theirs,
        "ratio": ms / ms_theirs,
        "target": target,
        "ms_bound": bound,
        "ratio_to_bound": ms / bound,
        "gflops_matmul": rate / 1e9,
        "slab": cost.slab,
        "seconds_to_first_step": compiled,
        "repeats": repeats,
    }


def memory(name: str, points: int, functions: int) -> dict[str, Any]:
    """Peak memory of a step: what the compiler plans, and what the process has in all."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    recipe = load_recipe("paper", name).changed({"train.sampling.points": points, "train.functions": functions})
    model = nn.build(PROBLEMS[name](), recipe.model, key=jax.random.key(0))
    slab = choose_slab(model, functions)
    stepper = TrainStep(model, recipe.train, slab, jax.random.key(1))
    began = time.perf_counter()
    size = stepper.memory()
    seconds = time.perf_counter() - began
    _, record = stepper.run(stepper.start(), jnp.asarray(1))
    jax.block_until_ready(record.loss)
    return {
        "problem": name,
        "points": points,
        "functions": functions,
        "slab": slab,
        "temporary_bytes": size,
        "process_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "process_bytes_before": before,
        "compile_seconds": seconds,
    }


MEMORY_CASES = [
    *[("burgers", n, 100) for n in (8, 16, 32, 64, 128)],
    *[("burgers", 128, f) for f in (5, 20, 400, 800)],
    ("burgers", 512, 800),
    *[("nonlinear_diffusion", n, 100) for n in (8, 16, 32, 64, 128)],
]


def keep(name: str, row: dict[str, Any]) -> None:
    """Store a case beside those that were measured before; each says when and on what."""
    path = RESULTS / f"{name}.json"
    before = json.loads(path.read_text())["rows"] if path.exists() else []

    def case(row: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(row.get(key) for key in ("case", "problem", "points", "functions"))

    merged = {**{case(old): old for old in before}, case(row): {**row, "machine": machine()}}
    store(name, {"rows": list(merged.values())})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("time", "memory"))
    parser.add_argument("--case", action="append", help="a case, as it is printed; all by default")
    parser.add_argument("--repeats", type=int, default=21)
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        name, points, functions = arguments.one
        print(json.dumps(memory(name, int(points), int(functions))))
        return
    if arguments.what == "time":
        for case in arguments.case or CASES:
            r = compare(case, arguments.repeats)
            keep("step_time", r)
            print(
                f"{case:28s} {r['ms']:8.1f} ms  reference {r['ms_reference']:8.1f} ms  ratio {r['ratio']:.3f} "
                f"(target {r['target']})  {r['ratio_to_bound']:.2f} x matmul bound",
                flush=True,
            )
    else:
        chosen = [c for c in MEMORY_CASES if not arguments.case or f"{c[0]} {c[1]} {c[2]}" in arguments.case]
        for name, points, functions in chosen:
            command = [sys.executable, __file__, "memory", "--one", name, str(points), str(functions)]
            r = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            keep("step_memory", r)
            print(
                f"{name:20s} {points:4d} points {functions:4d} functions: "
                f"step {r['temporary_bytes'] / 2**20:7.1f} MiB, process {r['process_bytes'] / 2**20:7.0f} MiB",
                flush=True,
            )


if __name__ == "__main__":
    main()
