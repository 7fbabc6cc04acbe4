"""Navier-Stokes at T = 0.1, and at T = 1 by ten composed windows: errors, floors, the residual as a warning, times.

    python benchmarks/navier_stokes.py best
    python benchmarks/navier_stokes.py quick
    python benchmarks/navier_stokes.py best --run ../runs/navier_stokes       # a run that is there already

The 100 test states are looked at once; settings are chosen on validation states. Seconds include compilation.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from navier_stokes_figures import draw_film, draw_scatter, draw_snapshots
from results import machine, store

import seponet
from seponet.evaluation.errors import compare
from seponet.evaluation.testset import TestSet, load_testset
from seponet.functions import Functions
from seponet.losses.spectral import SpectralResidual
from seponet.operator.rollout import advance_inputs
from seponet.problems.navier_stokes import VELOCITY, NavierStokes
from seponet.runs.folder import RunFolder
from seponet.runs.recipes import load_recipe
from seponet.training.sampling import Sampler

Velocity = dict[str, np.ndarray]


def summary(found: Velocity, exact: Velocity) -> dict[str, float]:
    errors = compare(found, exact).relative_l2
    return {"mean": float(errors.mean()), "max": float(errors.max()), "median": float(np.median(errors))}


def floors(testset: TestSet, exact: Velocity) -> dict[str, Any]:
    """What other answers would get: the initial state, the best with the model's waves, dynamics with these waves."""
    initial = np.asarray(testset.inputs["u"](VELOCITY.sensors(128)))
    still = {k: np.broadcast_to(v[:, None], exact[k].shape) for k, v in zip("pq", initial, strict=True)}
    best: Velocity = {k: np.empty_like(v) for k, v in exact.items()}
    for i in range(len(testset)):
        state = jnp.stack([jnp.asarray(exact["p"][i]), jnp.asarray(exact["q"][i])])
        fitted = VELOCITY.fit(state)(VELOCITY.sensors(128))
        best["p"][i], best["q"][i] = np.asarray(fitted)
    size = 3 * (VELOCITY.bases[0].size // 2) + 2
    truncated = testset.problem.reference(testset.inputs, testset.points, size)
    return {
        "persistence": summary(still, exact),
        "projection": summary(best, exact),
        "truncated_dynamics": {"resolution": size, **summary(truncated, exact)},
        "reference_own_error": float(testset.own_error or 0.0),
    }


@eqx.filter_jit
def relative_residual(model: Any, inputs: Any) -> jax.Array:
    """The residual in the norm of a velocity, over that of the initial state and slope alone: 1 is no better."""
    counts = {"t": 6, "x": 80, "y": 80}
    nodes = Sampler.of(model.problem.domain, counts, "gauss").draw(jax.random.key(0), (None,) * 3)
    judge, count = SpectralResidual({"equation_vorticity": 1.0}), len(inputs["u"])
    own = judge.table(model, inputs, nodes, model.coefficients(model.encode(inputs)), count)[0]
    return jnp.sqrt(own / judge.table(model, inputs, nodes, None, count)[0])


def residuals(operator: seponet.Operator, inputs: Mapping[str, Functions], windows: int) -> np.ndarray:
    """The relative residual of each window and state, `[windows, states]`."""
    per_window = []
    for _ in range(windows):
        parts = [relative_residual(operator.model, {"u": inputs["u"][i : i + 20]}) for i in range(0, 100, 20)]
        per_window.append(np.concatenate([np.asarray(part) for part in parts]))
        inputs = advance_inputs(operator.model, dict(inputs))
    return np.stack(per_window)


def divergence(operator: seponet.Operator, inputs: Any) -> float:
    """Of the predicted velocity, relative to its gradient."""
    x = np.linspace(0, 2 * np.pi, 64, endpoint=False)
    found = operator.predict(inputs, derivative=["p_x", "p_y", "q_x", "q_y"], t=[0.03, 0.1], x=x, y=x)
    gradient = np.sqrt(sum(float((found[name] ** 2).sum()) for name in found.data_vars))
    return float(np.sqrt(((found["p_x"] + found["q_y"]) ** 2).sum())) / gradient


def median_seconds(call: Callable[[], object], repeats: int = 3) -> float:
    call()
    times: list[float] = []
    for _ in range(repeats):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def evaluate(operator: seponet.Operator, composed: bool, figures: Path) -> dict[str, Any]:
    """At T = 0.1; and at T = 1, with pictures and times, for a model that is made to be composed."""
    rows: dict[str, Any] = {}
    solutions: dict[float, Any] = {}
    for duration, windows in ((0.1, 1), (1.0, 10)) if composed else ((0.1, 1),):
        testset = load_testset(NavierStokes(duration=duration), "test", 100)
        exact = {k: testset.solution(k) for k in "pq"}
        flow = operator.advance(testset.inputs, **testset.points)
        predicted = {k: flow[k].to_numpy() for k in "pq"}
        errors = compare(predicted, exact).relative_l2
        relative_residuals = residuals(operator, testset.inputs, windows)
        worst = relative_residuals.max(axis=0)
        order = [np.argsort(np.argsort(values)) for values in (worst, errors)]
        rows[f"T={duration:g}"] = {
            "windows": windows,
            "relative_l2": summary(predicted, exact),
            "blown_up": int(np.sum(~(errors < 1))),
            "floors": floors(testset, exact),
            "per_state": {"relative_l2": errors.tolist(), "largest_relative_residual": worst.tolist()},
            "residual_error_rank_correlation": float(np.corrcoef(*order)[0, 1]),
        }
        solutions[duration] = (testset, predicted, exact)
        print(f"T={duration:g}", {k: v for k, v in rows[f"T={duration:g}"].items() if k != "per_state"}, flush=True)
    testset, predicted, exact = solutions[max(solutions)]
    rows["relative_divergence"] = divergence(operator, {"u": testset.inputs["u"][:10]})
    if not composed:
        return rows
    inputs = {"u": testset.inputs["u"][:20]}
    ends = {**testset.points, "t": testset.points["t"][[-1]]}
    size = rows["T=1"]["floors"]["truncated_dynamics"]["resolution"]
    solver = median_seconds(lambda: testset.problem.reference(inputs, ends, size)) / 20
    network = median_seconds(lambda: operator.advance(inputs, **ends)) / 20
    rows["seconds_per_state_at_t_1"] = {"network": network, "solver": solver, "solver_resolution": size}
    print(rows["relative_divergence"], rows["seconds_per_state_at_t_1"], flush=True)
    figures.mkdir(exist_ok=True)
    draw_scatter(rows, figures / "navier_stokes_residual.png")
    draw_snapshots(testset.points, exact, predicted, figures / "navier_stokes_vorticity.png")
    draw_film(operator, {"u": testset.inputs["u"][:1]}, figures / "navier_stokes.gif")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", nargs="?", default="best", help="best, quick (one window), or a .toml file")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--run", help="evaluate this run instead of training one")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        out = Path(arguments.run or Path(folder) / "run")
        if arguments.run is None:
            seponet.train("navier_stokes", arguments.recipe, seed=arguments.seed, out=out, functions=0, figures=False)
        operator, report = seponet.load(out), RunFolder(out).read_report()
    keys = ("recipe", "seed", "steps", "training_seconds", "parameters")
    content = {"machine": machine(), **{key: report.get(key) for key in keys}}
    composed = load_recipe(arguments.recipe, "navier_stokes").train.rollout.windows > 1
    rows = evaluate(operator, composed, Path(__file__).parent / "figures")
    store(f"navier_stokes_{Path(arguments.recipe).stem}", {**content, **rows})


if __name__ == "__main__":
    main()
