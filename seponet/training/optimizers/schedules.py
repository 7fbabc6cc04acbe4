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
    _fits(steps, warmup=warmup)
    fall = optax.cosine_decay_schedule(rate, steps - warmup, alpha=final / rate)
    return _after_warmup(fall, rate, warmup)


def warmup_stable_decay(rate: float, steps: int, warmup: int, decay: int, final: float = 0.0) -> optax.Schedule:
    """A linear rise over `warmup` steps, a plateau at `rate`, and a linear fall to `final` over the last `decay` steps.

    Until the fall begins nothing depends on `steps`, so a run may be prolonged from a checkpoint on its plateau.

    **Arguments:**

    - `rate`: the rate on the plateau.
    - `steps`: the length of the run.
    - `warmup`: steps of the rise.
    - `decay`: steps of the fall.
    - `final`: the last rate.
    """
    _positive(rate=rate, steps=steps, decay=decay)
    _fits(steps, warmup=warmup, decay=decay)
    fall = optax.linear_schedule(rate, final, decay, transition_begin=steps - decay - warmup)
    return _after_warmup(fall, rate, warmup)


def _after_warmup(schedule: optax.Schedule, rate: float, warmup: int) -> optax.Schedule:
    if not warmup:
        return schedule
    return optax.join_schedules([optax.linear_schedule(0.0, rate, warmup), schedule], [warmup])


def _positive(**values: float) -> None:
    for name, value in values.items():
        if not value > 0:
            raise ValueError(f"`{name}` must be positive; got {value}")


def _fits(steps: int, **phases: int) -> None:
    if min(phases.values()) < 0 or sum(phases.values()) > steps:
        given = " + ".join(f"`{name}` ({n})" for name, n in phases.items())
        raise ValueError(
            f"{given} must be at least 0 and at most `steps` ({steps}); make the run longer or these shorter"
        )
