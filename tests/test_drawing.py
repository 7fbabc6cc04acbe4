"""Pictures of predictions, and operators and problems that show themselves."""

from pathlib import Path

import numpy as np
import pytest
from zoo import Reactor

import seponet
from seponet import plots

GOLDEN = Path(__file__).parent / "data" / "format2"


@pytest.fixture(scope="module")
def operator() -> seponet.Operator:
    return seponet.load(GOLDEN / "tucker_translation")


def test_whatever_predict_returned_is_drawn(operator: seponet.Operator):
    u = np.sin(2 * np.pi * np.arange(8) / 8)
    s = operator.predict(np.stack([u, 2 * u]), t=np.linspace(0, 1, 4), x=np.linspace(0, 1, 5))
    titles = [axes.get_title() for axes in plots.draw(s, 1.1 * s).axes if axes.get_title()]
    assert titles[:3] == ["reference $s$, function 0", "prediction $s$, function 0", "prediction − reference"]
    assert len(titles) == 6
    (line,) = plots.draw(s.isel(function=0, t=1)).axes[0].lines
    np.testing.assert_allclose(np.array(line.get_ydata(), float), s.isel(function=0, t=1).to_numpy())
    with pytest.raises(ValueError, match=r"the reference of s must have the dimensions .*'x': 5"):
        plots.draw(s, s.isel(x=slice(3)))


def test_an_operator_draws_its_input_and_its_solution(operator: seponet.Operator):
    figure = operator.plot(np.ones(8), error=False, t=np.linspace(0, 1, 4), x=np.linspace(0, 1, 5))
    assert [axes.get_title() for axes in figure.axes if axes.get_title()] == ["input $u$", "solution $s$"]


def test_operators_and_problems_say_what_they_are(operator: seponet.Operator):
    for text in (repr(operator), operator._repr_html_()):
        assert all(part in text for part in ("Burgers", "s_t + s s_x = ν s_xx", "not calibrated", "nu = 0.01", "136"))
    assert "<table>" in Reactor()._repr_html_()
    # An own problem without a formula in a docstring shows its equation as it is written.
    assert "s_t - nu s_xx + v s_x + v_x s - u cos(t) = 0" in str(Reactor())
