"""Operators that earlier versions wrote are read by this one, and predict what they did."""

from pathlib import Path

import numpy as np
import pytest
from data import make_golden

import seponet
from seponet.operator.saving import FORMAT, UPGRADES

DATA = Path(__file__).parent / "data"

FOLDERS = sorted(path.parent for path in DATA.glob("format*/*/expected.npz"))


def test_there_are_golden_operators_of_every_format_and_kind():
    formats = [f"format{number}" for number in (*UPGRADES, FORMAT)]
    expected = {(number, case) for number in formats for case in make_golden.CASES}
    assert {(folder.parent.name, folder.name) for folder in FOLDERS} == expected


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: f"{folder.parent.name}-{folder.name}")
def test_a_golden_operator_predicts_what_it_did(folder: Path):
    operator = seponet.load(folder)
    with np.load(folder / "expected.npz") as stored:
        inputs = {name.removeprefix("input_"): stored[name] for name in stored.files if name != "values"}
        expected = stored["values"]
    assert np.max(np.abs(expected)) > 0.1
    predicted = make_golden.predict(operator, inputs)
    np.testing.assert_allclose(predicted, expected, rtol=1e-6, atol=1e-6 * np.max(np.abs(expected)))
