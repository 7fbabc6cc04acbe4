"""The examples on mapped domains: each is short, and its commands run from a model to a picture."""

import runpy
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from matplotlib.image import imread

import seponet
from seponet import Operator, nn

EXAMPLES = Path(__file__).parents[1] / "examples"


class Untrained:
    """An operator with random weights in place of a trained one: what is tested is that commands fit together."""

    def __init__(self, kind: Any) -> None:
        self.operator = Operator(
            nn.build(
                kind(), decoder="tucker", rank=5, trunk="classical", exact="all", sensors=16, key=jax.random.key(0)
            )
        )

    def predict(self, *inputs: Any, error: bool = False, **points: Any) -> Any:
        s = self.operator.predict(*inputs, **points)
        return s.assign_coords(error=("function", np.zeros(s.sizes["function"]))) if error else s


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("star_poisson", ["star.png", "star.vts"]),
        ("annulus_heat", ["ring.png", "ring.pvd"]),
        ("channel_flow", ["channel.png"]),
        ("hole", ["hole.png"]),
    ],
)
def test_an_example_runs_from_a_model_to_its_files(name, files, tmp_path, monkeypatch):
    path = EXAMPLES / f"{name}.py"
    assert len(path.read_text().splitlines()) <= 40
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(seponet, "train", Untrained)
    runpy.run_path(str(path), run_name="__main__")
    assert {file for file in files if not (tmp_path / file).exists()} == set()
    assert np.std(imread(tmp_path / files[0])[..., :3]) > 0.05  # not one colour
