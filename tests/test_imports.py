"""What a new process has to import: nothing for the package itself, and for a prediction what predicts."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

DATA = Path(__file__).parent / "data"
FOREIGN = (
    "seponet.training",
    "seponet.reference",
    "seponet.evaluation",
    "seponet.runs",
    "seponet.plots",
    "orbax",
    "optax",
    "diffrax",
    "exponax",
    "matplotlib",
)

PREDICT = """
import numpy as np
import seponet
operator = seponet.load({folder!r})
where = {{name: np.linspace(axis.lower, axis.upper, 3) for name, axis in operator.problem.domain.axes}}
shapes = {{name: (16,) * len(s.domain) if s.components is None else (s.components, *(16,) * len(s.domain))
          for name, s in operator.problem.inputs.items()}}
assert operator.predict({{name: np.full(shape, 1.5) for name, shape in shapes.items()}}, **where) is not None
"""


def loaded_by(code: str, names: tuple[str, ...]) -> list[str]:
    """Which of some modules and packages a new process has loaded once it has run the code."""
    report = f"import sys\nprint(*[n for n in {names!r} if any((m + '.').startswith(n + '.') for m in sys.modules)])"
    root = Path(__file__).parents[1]
    process = subprocess.run(
        [sys.executable, "-c", f"{code}\n{report}"],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(root)},
    )
    assert process.returncode == 0, process.stderr
    return process.stdout.split()


@pytest.mark.parametrize("case", ["tucker_translation", "fields"])
def test_a_prediction_imports_neither_the_trainer_nor_solvers_nor_plots(case: str):
    code = PREDICT.format(folder=str(DATA / "format2" / case))
    assert loaded_by(code, ("jax", "xarray", *FOREIGN)) == ["jax", "xarray"]


def test_importing_the_package_imports_no_jax():
    assert loaded_by("import seponet", ("seponet", "jax", "numpy", "equinox")) == ["seponet"]
