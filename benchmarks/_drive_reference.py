"""Drives `separable-operator-networks`, the paper's authors' package, in its own environment; see `peer.py`."""

from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from peer import Task, drive, fit, time_prediction, time_steps
from separable_operator_networks import models, pde, train

SUFFIX = {"diffusion_reaction": "DR", "advection": "ADV", "burgers": "Burgers"}


def run(task: Task, settings: Mapping[str, Any]) -> Mapping[str, Any]:
    name, axes = settings["problem"], task.solution.ndim - 1
    sensors = task.test.shape[1]
    model = models.SepONet(
        axes, sensors, 1, settings["depth"], settings["width"], settings["rank"], key=jax.random.key(0)
    )
    coordinates = tuple(jnp.asarray(p, jnp.float32)[:, None] for p in (task.t, *[task.x] * (axes - 1)))
    test = jnp.asarray(task.test, jnp.float32)
    forward = eqx.filter_jit(lambda model: model((coordinates, test)))
    versions = {name: version(name) for name in ("separable-operator-networks", "jax", "equinox")}
    if settings["what"] == "predict":
        result = time_prediction(lambda: jax.block_until_ready(forward(model)), len(test))
        return {**result, "versions": versions}

    module = getattr(pde, name)
    generate = getattr(module, f"SepONet_train_generator_{SUFFIX[name]}")
    pool = jnp.asarray(task.train, jnp.float32)
    optimizer = optax.adam(optax.exponential_decay(1e-3, 1000, 0.9))
    box: dict[str, Any] = {"model": model, "state": optimizer.init(eqx.filter(model, eqx.is_array)), "step": 0}

    def advance(steps: int) -> None:
        # The loop of their trainer: new functions and points every hundred steps.
        for _ in range(steps):
            if box["step"] % 100 == 0:
                key = jax.random.fold_in(jax.random.key(1), box["step"])
                box["batch"] = generate(pool, settings["functions"], settings["points"], key)
            _, gradient = module.apply_model_SepONet(box["model"], *box["batch"])
            box["model"], box["state"] = train.update(gradient, optimizer, box["state"], box["model"])
            box["step"] += 1
        jax.block_until_ready(eqx.filter(box["model"], eqx.is_array))

    timed = time_steps(advance)
    result = {**timed, "versions": versions}
    if settings["seconds"]:
        error = lambda: task.error(np.asarray(forward(box["model"])))  # noqa: E731
        result |= {"training": fit(advance, error, timed, settings["seconds"], settings["target"])}
    return result


if __name__ == "__main__":
    drive(run)
