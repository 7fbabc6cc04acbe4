"""Learning-rate schedules: functions of the step, under the names that recipes use."""

import optax


def exponential(rate: float = 1e-3, factor: float = 0.9, every: int = 1000) -> optax.Schedule:
    r"""$\eta_t = \eta_0 \, \gamma^{t / T}$, smooth in $t$; the defaults are the paper's.

    **Arguments:**

    - `rate`: $\eta_0$.
    - `factor`: $\gamma$, what `every` steps multiply the rate by.
    - `every`: $T$.
    """
    _positive(rate=rate, factor=factor, every=every)
    return optax.exponential_decay(rate, every, factor)


def cosine(rate: float, steps: int, warmup: int = 0, final: float = 0.0) -> optax.Schedule:
    """A linear rise from zero over `warmup` steps, then half a cosine wave from `rate` to `final`, reached at `steps`.

    **Arguments:**

    - `rate`: the highest rate.
    - `steps`: the length of the run, warm-up included; the rate stays at `final` afterwards.
    - `warmup`: steps of the rise.
    - `final`: the last rate.
    """
    _positive(rate=rate, steps=steps, **{"steps - warmup": steps - warmup})
    if warmup < 0:
        raise ValueError(f"`warmup` must be at least 0; got {warmup}")
    fall = optax.cosine_decay_schedule(rate, steps - warmup, alpha=final / rate)
    if not warmup:
        return fall
    return optax.join_schedules([optax.linear_schedule(0.0, rate, warmup), fall], [warmup])


def _positive(**values: float) -> None:
    for name, value in values.items():
        if not value > 0:
            raise ValueError(f"`{name}` must be positive; got {value}")
