"""The same operator-learning tasks here, in the paper's authors' package and in DeepXDE: step, memory, error.

    seponet bench peers
    seponet bench peers --only burgers 32 --budget 8min

Diffusion-reaction, advection and Burgers with 100 functions on 32^2 and 128^2 points; networks of the paper's sizes,
Adam at the paper's rates, functions of one distribution and the same test solutions for all. Each is trained for
a while; "to the paper's error" is the time in which the error falls to that of the paper's SepONet on as many points.
Peers are installed from PyPI into environments of their own under `.cache/peers`; one that can't be is reported so.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from study import Cell, Study, stated

PROBLEMS = ("burgers", "diffusion_reaction", "advection")
WHO = ("seponet_paper", "reference", "deepxde_zcs", "deepxde")
TRAINING = 45.0
"""Seconds of training."""
LIMIT = 400.0


@dataclass(frozen=True)
class Peer(Cell):
    """Who does which task; `points` along each axis, "own" for a recipe that brings its own."""

    problem: str
    who: str
    points: int | str


def cells() -> tuple[Peer, ...]:
    peers = [Peer(problem, "seponet_quick", "own") for problem in PROBLEMS]
    peers += [Peer(problem, who, points) for points in (32, 128) for problem in PROBLEMS for who in WHO]
    return tuple(peers)


def target(problem: str, points: int = 128) -> float:
    """The error of the paper's SepONet after its full training on as many points."""
    from published import error

    published_error = error(problem, "SepONet", points, 100)
    if published_error is None:
        raise ValueError(f"the paper has no error for {problem}")
    return published_error


def measure(cell: Peer) -> Mapping[str, Any]:
    if cell.who == "seponet_quick":
        return ours_quick(cell.problem)
    assert isinstance(cell.points, int)
    if cell.who == "seponet_paper":
        return ours_paper(cell.problem, cell.points)
    from environments import drive

    peer, _, mode = cell.who.partition("_")
    return drive(peer, cell.problem, settings(cell.problem, cell.points, mode))


def settings(problem: str, points: int, mode: str) -> dict[str, Any]:
    """What a driver is told, from the paper's recipe."""
    from seponet.runs.recipes import load_recipe

    recipe = load_recipe("paper", problem)
    weights = recipe.train.loss.weights
    return {
        "what": "train",
        "problem": problem,
        "points": points,
        "functions": recipe.train.functions,
        "width": recipe.model.trunk_width,
        "depth": recipe.model.trunk_depth,
        "rank": recipe.model.rank,
        "weight_t": weights.get("t", 1.0),
        "weight_x": weights.get("x", 1.0),
        "seconds": TRAINING,
        "target": target(problem, points),
        "mode": mode,
    }


def ours_paper(name: str, points: int) -> Mapping[str, Any]:
    """The paper's model and recipe, by our step; seconds without compilation, as for the peers."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    from peer import fit, peak_bytes, time_steps

    from seponet import nn
    from seponet.evaluation.errors import measure as errors_of
    from seponet.evaluation.testset import load_testset
    from seponet.problems import PROBLEMS as KNOWN
    from seponet.runs.recipes import load_recipe
    from seponet.training.cost import choose_slab
    from seponet.training.step import TrainStep

    recipe = load_recipe("paper", name).changed({"train.sampling.points": points})
    model = nn.build(KNOWN[name](), recipe.model, key=jax.random.key(0))
    stepper = TrainStep(model, recipe.train, choose_slab(model, recipe.train.functions), jax.random.key(1))
    box = [stepper.start()]

    def advance(steps: int) -> None:
        box[0], record = stepper.run(box[0], jnp.asarray(steps))
        jax.block_until_ready(record.loss)

    timed: dict[str, Any] = time_steps(advance)
    test = load_testset(model.problem, "test", 100)
    error = lambda: float(np.mean(errors_of(stepper.model(box[0]), test).relative_l2))  # noqa: E731
    training = fit(advance, error, timed, TRAINING, target(name, points))
    return {**timed, "training": training, "process_bytes": peak_bytes()}


def ours_quick(name: str) -> Mapping[str, Any]:
    """Our recipe with its own points; seconds include compilation and validation."""
    import dataclasses

    import numpy as np
    from peer import peak_bytes

    from seponet.evaluation.errors import measure as errors_of
    from seponet.evaluation.testset import load_testset
    from seponet.problems import PROBLEMS as KNOWN
    from seponet.runs.recipes import load_recipe
    from seponet.training.loop import train_model

    recipe = load_recipe("quick", name)
    recipe = dataclasses.replace(recipe, train=dataclasses.replace(recipe.train, validate=0.3))
    problem = KNOWN[name]()
    test = load_testset(problem, "test", 100)
    trained = train_model(
        problem, recipe, validate=lambda model: float(np.mean(errors_of(model, test).relative_l2)), quiet=True
    )
    history = [(row["seconds"], row["validation"]) for row in trained.history if "validation" in row]
    reached = next((seconds for seconds, error in history if error <= target(name)), None)
    rates = [
        (b["seconds"] - a["seconds"]) / (b["step"] - a["step"])
        for a, b in zip(trained.history, trained.history[1:], strict=False)
        if b["step"] > a["step"] and b.get("validation") == a.get("validation")
    ]
    return {
        "seconds": float(np.median(rates)) if rates else trained.seconds / trained.steps,
        "process_bytes": peak_bytes(),
        "training": {
            "error": trained.error,
            "trained_seconds": trained.seconds,
            "steps": trained.steps,
            "reached_seconds": reached,
            "history": history[:: max(1, len(history) // 40)],
        },
    }


def prepare(todo: Sequence[Peer]) -> None:
    if any(not cell.who.startswith("seponet") for cell in todo):
        from environments import prepare as install

        install(PROBLEMS, "train")


def depends_on(cell: Peer) -> dict[str, Any]:
    return {"recipe": stated(cell.problem)} if cell.who == "seponet_quick" else {"seconds": TRAINING}


STUDY = Study("peers", cells(), measure, __file__, limit=LIMIT, settings=depends_on, prepare=prepare)


def render() -> None:
    import peers_tables

    peers_tables.write(STUDY.finished(), STUDY.cells)


if __name__ == "__main__":
    sys.exit(STUDY.main(render=render))
