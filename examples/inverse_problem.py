"""Recover an input function from noisy values of the solution, by gradient descent through a trained operator.

    seponet train burgers --out runs/burgers
    python examples/inverse_problem.py runs/burgers

The unknown is u = sum_k z_k sigma_k f_k with independent z_k ~ N(0, 1), as in training. Given s at scattered points
with noise of standard deviation NOISE, the most probable z minimises |misfit|^2 / NOISE^2 + |z|^2.
"""

import sys
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import optax

import seponet
from seponet.functions import Expansion, Functions

NOISE, POINTS, STEPS = 0.01, 200, 500

operator = seponet.load(sys.argv[1])
((name, space),) = cast(dict[str, Expansion], operator.problem.inputs).items()
sigma = jnp.asarray(space.deviations)[None]
sensors = space.sensors(dict(dict(operator.model.sensors)[name]))
truth = space.sample(jax.random.key(1), 1)
random = np.random.default_rng(0)
axes = operator.problem.domain.axes
places: dict[str, Any] = {name: random.uniform(axis.lower, axis.upper, POINTS) for name, axis in axes}
exact = np.asarray(operator.solve(truth, rtol=1e-4, points=True, **places))
measured = jnp.asarray(exact + NOISE * random.standard_normal(exact.shape))
solution = operator.compile(points=True, **places)


@jax.jit
@jax.grad
def gradient(z):
    return jnp.sum((solution.evaluate(Functions(space, z * sigma)(sensors)) - measured) ** 2) / NOISE**2 + jnp.sum(z**2)


z: Any = jnp.zeros_like(sigma)
optimizer = optax.adam(optax.cosine_decay_schedule(0.1, STEPS))
state = optimizer.init(z)
for _ in range(STEPS):
    updates, state = optimizer.update(gradient(z), state)
    z = optax.apply_updates(z, updates)
found, wanted = Functions(space, z * sigma)(sensors), truth(sensors)
error = jnp.linalg.norm(found - wanted) / jnp.linalg.norm(wanted)
print(f"{name} from {POINTS} values of the solution with noise {NOISE}: {error:.1%} off")
