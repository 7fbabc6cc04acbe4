"""Measures one tree of this repository, of any age, for `since.py`: `python _drive_since.py WHAT ARGUMENT...`.

What is called here existed in all of them. Answers are lines of JSON.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

BLOCK = 20
"""Training steps between two looks at the clock."""


def steps(recipe: str, problem: str) -> None:
    """The seconds of the set-up and of the first step; then, for every line that is read, milliseconds of a step."""
    import jax
    import jax.numpy as jnp

    from seponet import nn
    from seponet.problems import PROBLEMS
    from seponet.runs.recipes import load_recipe
    from seponet.training.cost import choose_slab
    from seponet.training.step import TrainStep

    began = time.perf_counter()
    settings = load_recipe(recipe)
    model = nn.build(PROBLEMS[problem](), settings.model, key=jax.random.key(0))
    stepper = TrainStep(model, settings.train, choose_slab(model, settings.train.functions), jax.random.key(1))
    state, record = stepper.run(stepper.start(), jnp.asarray(1))
    jax.block_until_ready(record.loss)
    _say({"setup": time.perf_counter() - began})
    box = [state]

    def block() -> None:
        box[0], record = stepper.run(box[0], jnp.asarray(BLOCK))
        jax.block_until_ready(record.loss)

    _answer(block, lambda seconds: 1e3 * seconds / BLOCK)


def predictions(folder: str) -> None:
    """Functions a second, for every line that is read: a hundred of Burgers, on 101 x 101 points."""
    import jax
    import numpy as np

    import seponet

    operator = seponet.load(folder)
    inputs = operator.problem.sample(jax.random.key(1), 100)
    inputs = {name: inputs[name] for name in operator.problem.inputs}
    axis = np.linspace(0, 1, 101)
    operator.predict(inputs, t=axis, x=axis)
    _say({})
    _answer(lambda: operator.predict(inputs, t=axis, x=axis), lambda seconds: 100 / seconds)


def train(folder: str) -> None:
    """An operator to predict with; how good it is does not matter."""
    import seponet

    more: dict[str, Any] = {"functions": 0, "figures": False, "quiet": True, "overwrite": True}
    seponet.train("burgers", "quick", out=folder, set={"train.steps": 20}, **more)


def first(folder: str) -> None:
    """Seconds from nothing imported to a prediction."""
    began = time.perf_counter()
    import numpy as np

    import seponet

    operator = seponet.load(folder)
    operator.predict(lambda x: np.sin(2 * np.pi * x), t=np.linspace(0, 1, 101), x=np.linspace(0, 1, 101))
    _say({"seconds": time.perf_counter() - began})


def _answer(action: Callable[[], object], number: Callable[[float], float]) -> None:
    action()
    for _ in sys.stdin:
        began = time.perf_counter()
        action()
        _say({"value": number(time.perf_counter() - began)})


def _say(content: dict[str, Any]) -> None:
    print(json.dumps(content), flush=True)


if __name__ == "__main__":
    what: Callable[..., None] = {"steps": steps, "predictions": predictions, "train": train, "first": first}[
        sys.argv[1]
    ]
    what(*sys.argv[2:])
