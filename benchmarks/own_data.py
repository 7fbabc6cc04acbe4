"""How well an operator that was trained on a few hundred given functions does on others of the same kind.

    seponet bench own_data

Burgers' equation with 500 initial states as data (`Sampled`), the general recipe `quick`, once with functions drawn
from a distribution fitted to them (the default), once with given ones alone. Errors are those on given states and on
new ones of the space that they came from, 100 of each, against the converged reference.
"""

import jax
import numpy as np
from results import machine, store

import seponet
from seponet.evaluation.errors import compare
from seponet.functions import Sampled
from seponet.problems import Burgers
from seponet.runs.config import RunConfig
from seponet.runs.train import run

GIVEN, TESTED, SENSORS = 500, 100, 64


def _states(seed: int, count: int) -> np.ndarray:
    space = Burgers().inputs["u"]
    return np.asarray(space.sample(jax.random.key(seed), count)(space.sensors(SENSORS)), np.float64)


def _problem(draw: str) -> seponet.Problem:
    class Given(Burgers):
        inputs = {"u": Sampled(Burgers.domain["x"], _states(1, GIVEN), draw=draw)}  # pyright: ignore[reportArgumentType]

    return Given()


def main() -> None:
    rows = []
    for draw in ("auto", "given"):
        problem = _problem(draw)
        outcome = run(RunConfig.make(problem, "quick"), quiet=True, calibration=0)
        row = {"draw": draw, "seconds": None if outcome.trained is None else outcome.trained.seconds}
        points = {name: values[:: max(1, len(values) // 50)] for name, values in Burgers().grid().items()}
        for kind, seed in (("given", 1), ("new", 2)):
            values = _states(seed, GIVEN)[:TESTED]
            functions = Sampled(Burgers.domain["x"], values).functions()
            exact = Burgers().reference_solution({"u": functions}, points)
            predicted = outcome.operator.predict(values, **points).to_numpy()
            row[kind] = float(np.mean(compare({"s": predicted}, exact).relative_l2))
        print(row, flush=True)
        rows.append(row)
    store("own_data", {"machine": machine(), "functions": GIVEN, "tested": TESTED, "rows": rows})


if __name__ == "__main__":
    main()
