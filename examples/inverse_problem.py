"""Recover an input function from noisy measurements of the solution, by gradient descent through a trained operator.

    seponet train burgers --out runs/burgers
    python examples/inverse_problem.py runs/burgers

The unknown is u = sum_k z_k sigma_k f_k with independent z_k ~ N(0, 1), the distribution that the operator was trained
on. Given s at scattered points with noise of deviation `NOISE`, the most probable z minimises |misfit|^2 / NOISE^2 + |z|^2.
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax

import seponet

NOISE, POINTS, STEPS = 0.01, 200, 500

operator = seponet.load(sys.argv[1])
((name, space),) = operator.problem.inputs.items()
((_, counts),) = operator.model.sensors
sensors = space.sensors(dict(counts))
random = np.random.default_rng(0)
truth = space.sample(jax.random.key(1), 1)
places = {axis: random.uniform(i.lower, i.upper, POINTS) for axis, i in operator.problem.domain.axes}
measured = operator.refine(truth, steps=4).predict(points=True, **places).to_numpy()
measured = jnp.asarray(measured + NOISE * random.standard_normal(measured.shape))
solution = operator.on(points=True, **places)


def loss(z):
    u = seponet.functions.Functions(space, z * space.deviations[None])(sensors)
    return jnp.sum((solution.evaluate(u) - measured) ** 2) / NOISE**2 + jnp.sum(z**2)


@jax.jit
def step(z, state):
    value, gradient = jax.value_and_grad(loss)(z)
    updates, state = optimizer.update(gradient, state)
    return optax.apply_updates(z, updates), state, value


optimizer = optax.adam(optax.cosine_decay_schedule(0.1, STEPS))
z = jnp.zeros((1, *space.deviations.shape))
state = optimizer.init(z)
for _ in range(STEPS):
    z, state, value = step(z, state)
found = seponet.functions.Functions(space, z * space.deviations[None])(sensors)
error = jnp.linalg.norm(found - truth(sensors)) / jnp.linalg.norm(truth(sensors))
print(f"{name} recovered from {POINTS} values of the solution with noise {NOISE}: relative error {float(error):.2%}")
