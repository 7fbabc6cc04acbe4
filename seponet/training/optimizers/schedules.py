"""Learning-rate schedules: functions of the step, under the names that recipes use."""

from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Int


def exponential(rate: float = 1e-3, factor: float = 0.9, every: int = 1000) -> optax.Schedule:
    r"""$\eta_t = \eta_0 \, \gamma^{t / T}$, smooth in $t$; the defaults are the paper's.

    **Arguments:**

    - `rate`: $\eta_0$.
    - `factor`: $\gamma$, what `every` steps multiply the rate by.
    - `every`: $T$.
    """
    _positive(rate=rate, factor=factor, every=every)
    return optax.exponential_decay(rate, every, factor)


def cosine(
    rate: float, steps: int | Int[Array, ""], warmup: int = 0, final: float = 0.0, hold: float = 0.0
) -> optax.Schedule:
    """A linear rise from zero over `warmup` steps, then `rate`, then half a cosine wave to `final`, reached at `steps`.

    **Arguments:**

    - `rate`: the highest rate.
    - `steps`: the length of the run, warm-up included; the rate stays at `final` afterwards. It may be an array of a
        compiled program: the first `hold` of a run do not depend on it, so its length may be chosen that late.
    - `warmup`: steps of the rise.
    - `final`: the last rate.
    - `hold`: the part of the run, warm-up included, before the rate falls.
    """
    _positive(rate=rate)
    if not isinstance(steps, jax.Array):
        _positive(steps=steps, **{"steps - warmup": steps - warmup})
    if warmup < 0:
        raise ValueError(f"`warmup` must be at least 0; got {warmup}")
    if not 0 <= hold < 1:
        raise ValueError(f"`hold` must be at least 0 and below 1; got {hold}")

    def schedule(step: Any) -> Array:
        begin = jnp.maximum(hold * steps, float(warmup))
        fallen = jnp.clip((step - begin) / jnp.maximum(steps - begin, 1.0), 0.0, 1.0)
        fall = final + (rate - final) * 0.5 * (1 + jnp.cos(jnp.pi * fallen))
        return jnp.where(step < warmup, rate * step / warmup, fall) if warmup else fall

    return schedule


def _positive(**values: float) -> None:
    for name, value in values.items():
        if not value > 0:
            raise ValueError(f"`{name}` must be positive; got {value}")
