"""A problem is checked when its class is made; its terms are what is declared."""

import inspect
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import jax
import numpy as np
import pytest
from zoo import ZOO, AllenCahn, Brusselator, KdV, Reactor, Wave

from seponet import Derivative, Domain, Periodic, Problem, Residual, Robin, Value
from seponet.functions import Scalar, SpectralField

LINE = Domain(t=(0, 1), x=(0, 1))
INPUT = SpectralField(LINE["x"], sigma=20.0, tau=3.0, gamma=4.0)
CLOSED = [Value({"t": 0}), Value({"x": (0, 1)})]


def heat(self, s_t, s_xx):  # noqa: ARG001 - becomes a method
    return s_t - s_xx


def define(**attributes):
    """The class `Mistake`, a heat equation but for the attributes given."""
    body = {"domain": LINE, "conditions": CLOSED, "equation": heat, **attributes}
    return type("Mistake", (Problem,), {name: value for name, value in body.items() if value is not None})


MISTAKES = {
    "unknown axis in a body": (
        {"equation": lambda self, s_t, s_y: s_t - s_y},
        "`equation`: `s_y` differentiates along `y`; the axes are t, x",
    ),
    "unknown field": ({"equation": lambda self, s_t, v_xx: s_t - v_xx}, "`v_xx` means nothing here: the fields are s"),
    "unknown axis in a condition": ({"conditions": [*CLOSED, Value({"y": 0})]}, "no axis 'y'; the axes are t, x"),
    "missing condition axis": (
        {"conditions": [Value({"t": 0})]},
        r'differentiates along x, but there is no condition on x: add for instance Value\(\{"x": 0\}',
    ),
    "body that changes rank": (
        {"equation": lambda self, s_t: s_t.sum(axis=0)},
        r"must be elementwise: given arrays of shape \(2, 3, 4\).*returned \(3, 4\)",
    ),
    "reduction over points": (
        {"equation": lambda self, s, s_t, s_xx: s_t - s_xx + s - s.mean()},
        r"`equation` must be elementwise, but it has a sum or mean \(`reduce_sum`\) along the functions, t, x",
    ),
    "reduction in data": (
        {"inputs": {"u": INPUT}, "conditions": [Value({"t": 0}, equals=lambda u: u - u.mean()), *CLOSED[1:]]},
        "the condition on t = 0 must be elementwise, but it has a sum or mean",
    ),
    "complex equation": (
        {"equation": lambda self, s_t, s_xx: 1j * s_t + s_xx},
        "`equation` must be real, but it returned complex numbers; write real and imaginary part as two fields",
    ),
    "complex data": (
        {"conditions": [Value({"t": 0}, equals=lambda x: np.exp(1j) * x), *CLOSED[1:]]},
        "the condition on t = 0 must be real.*as two fields",
    ),
    "complex free residual": (
        {"conditions": [*CLOSED, Residual({"x": 0}, lambda s, s_x: s_x - 1j * s, name="outgoing")]},
        "the residual on x = 0 must be real.*as two fields",
    ),
    "varargs": ({"equation": lambda self, *s: s[0]}, "takes `.*s`; name each argument"),
    "input named like a field": ({"inputs": {"s": INPUT}}, "'s' names two things"),
    "field named like an axis": ({"fields": ("x",)}, "'x' names two things"),
    "underscore in a name": ({"inputs": {"u_0": INPUT}}, "identifier without underscores"),
    "input on a foreign axis": (
        {"inputs": {"u": SpectralField(Domain(z=(0, 1)), sigma=1.0, tau=1.0, gamma=2.0)}},
        "'u' is a function of 'z', which is not an axis",
    ),
    "field in data": (
        {"conditions": [Value({"t": 0}, equals=lambda s_x: s_x), *CLOSED[1:]]},
        "holds the unknown `s_x`; write it as a Residual",
    ),
    "unknown name in data": (
        {"conditions": [Value({"t": 0}, equals="v"), *CLOSED[1:]]},
        "the condition on t = 0: `v` means nothing",
    ),
    "outside face": (
        {"conditions": [*CLOSED, Value({"x": 1.5})]},
        "x = 1.5 lies outside of the axis x from 0 to 1",
    ),
    "two axes at once": ({"conditions": [*CLOSED, Value({"x": 0, "t": 0})]}, "Value needs one axis and where on it"),
    "derivative of an input along a foreign axis": (
        {"inputs": {"u": INPUT}, "equation": lambda self, s_t, s_xx, u_t: s_t - s_xx - u_t},
        "`u_t` is always zero: `u` is a function of x",
    ),
    "derivative of a scalar": (
        {"inputs": {"k": Scalar(0.0, 1.0)}, "equation": lambda self, s_t, s_xx, k_x: s_t - s_xx - k_x},
        "`k` is a constant",
    ),
    "no equation": ({"equation": None}, r"there is no equation; write a method `equation\(self, s, s_t, ...\)`"),
    "several fields without field=": (
        {"fields": ("p", "q"), "equation": lambda self, p_t, q: p_t - q},
        r'must say which field it is about: field="p"',
    ),
    "condition on an unknown field": ({"conditions": [*CLOSED, Value({"x": 0.5}, field="w")]}, "got 'w'"),
    "the same condition twice": ({"conditions": [*CLOSED, Value({"x": 0})]}, "two conditions are called 'x=0'"),
    "not a condition": (
        {"conditions": [*CLOSED, "periodic"]},
        "a condition is Value, Derivative, Robin, Normal or Residual",
    ),
    "fields as a string": ({"fields": "s"}, "fields must be a tuple of names"),
    "unknown name in a free residual": (
        {"conditions": [*CLOSED, Residual({"x": 0}, lambda s, w: s - w)]},
        "the residual on x = 0: `w` means nothing",
    ),
}


RING = {"domain": Domain(t=(0, 1), x=Periodic(0, 2))}
ON_RING = {
    "value": (Value({"x": 0}), "x=0"),
    "derivative": (Derivative({"x": 0}), "derivative x=0"),
    "Robin condition": (Robin({"x": 2}, value=1.0, derivative=1.0), "robin x=2"),
    "residual": (Residual({"x": 1}, lambda s: s**2), "x=1 residual"),
}
MISTAKES |= {
    f"{kind} on a periodic axis": (
        {**RING, "conditions": [Value({"t": 0}), condition]},
        rf"the condition '{name}' is on the axis x, which is periodic and has no ends: drop it, or make the axis an "
        r"interval, x=\(0, 2\)",
    )
    for kind, (condition, name) in ON_RING.items()
}


def stationary(self, s_xx, s_x):  # noqa: ARG001 - becomes a method
    return s_xx + s_x


MISTAKES["two pins on a periodic axis"] = (
    {**RING, "equation": stationary, "conditions": [Value({"x": (0, 1)})]},
    "the condition 'x=0' is on the axis x, which is periodic",
)
MISTAKES["slope of an open constant"] = (
    {**RING, "equation": stationary, "conditions": [Derivative({"x": 0})]},
    "the condition 'derivative x=0' is on the axis x, which is periodic",
)


def solve(_self, inputs, points):
    return {"s": np.zeros((len(inputs["u"]), *(len(p) for p in points.values())))}


def refine(_self, inputs, points, resolution):
    step = np.nan if resolution is None else 1 / resolution
    return {"s": np.full((len(inputs["u"]), *(len(p) for p in points.values())), step)}


MISTAKES["reference without a resolution"] = (
    {"reference_resolution": 8, "reference": solve},
    "`reference` must take a `resolution`, since reference_resolution is 8",
)
MISTAKES["the old name of the singular part"] = (
    {"known_part": lambda self, inputs: {}},
    "`known_part` is called `singular_part` now; rename the method",
)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_fails_when_the_class_is_made(mistake):
    attributes, sentence = MISTAKES[mistake]
    with pytest.raises(ValueError, match=f"^Mistake: .*{sentence}"):
        define(**attributes)


def test_the_class_without_a_mistake_is_made():
    assert [term.name for term in define()().terms()] == ["equation", "t=0", "x=0", "x=1"]
    define(conditions=[Value({"t": 0})], open_axes=("x",))


def test_a_constant_that_the_equations_leave_open_on_a_circle_is_pinned():
    """s_xx + s_x = 0 holds for s and for s + c(t), so one value for each t is needed."""
    pinned = define(**RING, equation=stationary, conditions=[Value({"x": 0}, equals=lambda t: t)])
    assert [term.name for term in pinned().terms(("x",))] == ["equation"]
    assert [condition.name for condition in pinned().linear_conditions] == ["x=0"]


def test_a_reference_gets_a_resolution_if_it_asks_for_one():
    given = {"inputs": {"u": INPUT}}
    plain, exact = define(**given)(), define(**given, reference=solve)()
    converged = define(**given, reference=refine, reference_resolution=8)()
    unknown = define(**given, reference=refine)()
    assert [p.has_reference for p in (plain, exact, converged, unknown)] == [False, True, True, True]
    inputs, points = exact.sample(jax.random.key(0), 2), {"t": np.zeros(3), "x": np.zeros(4)}
    assert exact.reference_solution(inputs, points)["s"].shape == (2, 3, 4)
    assert np.all(converged.reference_solution(inputs, points)["s"] == 1 / 8)
    assert np.all(converged.reference_solution(inputs, points, 16)["s"] == 1 / 16)
    assert np.all(np.isnan(unknown.reference_solution(inputs, points)["s"]))
    with pytest.raises(ValueError, match="Mistake has no reference solver; give it a method `reference`"):
        plain.reference_solution(inputs, points)


def test_a_class_whose_constants_have_no_default_is_checked_when_it_is_constructed():
    class Late(Problem):
        end: float
        conditions = CLOSED

        @property
        def domain(self):  # pyright: ignore[reportIncompatibleVariableOverride]
            return Domain(t=(0, self.end), x=(0, 1))

        def equation(self, s_t, s_y):
            return s_t - s_y

    with pytest.raises(ValueError, match=r"Late: .*`s_y` differentiates along `y`"):
        Late(end=2.0)


def test_constants_are_constructor_arguments():
    assert Wave(c=3.0).c == 3.0
    assert Wave(c=3.0) != Wave()
    assert hash(Wave(c=3.0)) == hash(Wave(c=3.0))


@pytest.mark.parametrize("kind", ZOO)
def test_a_problem_of_the_zoo_is_short_and_its_terms_have_distinct_names(kind):
    assert len(inspect.getsource(kind).splitlines()) <= 25
    names = [term.name for term in kind().terms()]
    assert len(set(names)) == len(names)


def test_terms_leave_out_what_holds_exactly():
    assert [t.name for t in Wave().terms()] == ["equation", "t=0", "derivative t=0", "x=0", "x=1"]
    assert [t.name for t in Wave().terms(("t",))] == ["equation", "x=0", "x=1"]
    assert [t.name for t in Brusselator().terms(("t", "x"))] == ["equation_p", "equation_q"]
    assert [t.name for t in Reactor().terms(("t", "x"))] == ["equation", "x=1 residual"]


def test_a_periodic_axis_has_a_jump_for_each_order_below_the_highest():
    assert [t.name for t in KdV().terms()] == [
        "equation",
        "t=0",
        "x periodic",
        "x periodic s_x",
        "x periodic s_xx",
    ]
    (jump,) = {t.face for t in KdV().terms() if "periodic" in t.name}
    assert jump is not None
    assert jump.nodes == (-1, 1)
    assert jump.weights == (-1, 1)
    assert [t.name for t in KdV().terms(("x",))] == ["equation", "t=0"]


def test_conditions_of_different_orders_on_one_face_keep_their_own_names():
    beam = define(
        conditions=[
            *CLOSED,
            Derivative({"x": 0}),
            Derivative({"x": 0}, order=2),
            Robin({"x": 0}, value=1.0, derivative=1.0),
            Residual({"x": 0}, lambda s: s**2),
            Residual({"x": 0}, lambda s: s**3, name="cubic"),
        ]
    )
    names = [term.name for term in beam().terms()]
    assert len(set(names)) == len(names) == 9


def test_the_highest_order_is_that_of_the_field():
    class Coupled(Problem):
        domain = Domain(x=Periodic(0, 1))
        fields = ("p", "q")

        def equation_p(self, p_xxx, q):
            return p_xxx - q

        def equation_q(self, q_x, p):
            return q_x - p

    assert [Coupled().highest_order("x", f) for f in (None, "p", "q")] == [3, 3, 1]
    assert [t.name for t in Coupled().terms()] == [
        "equation_p",
        "equation_q",
        *["x periodic p", "x periodic p_x", "x periodic p_xx", "x periodic q"],
    ]


def test_samples_are_deterministic_in_the_key_and_differ_between_inputs():
    a, b = (Wave().sample(jax.random.key(1), 3) for _ in range(2))
    assert all((a[n].parameters == b[n].parameters).all() for n in "uv")
    assert not (a["u"].parameters == a["v"].parameters).any()
    assert len(a["u"]) == 3


def test_defining_a_problem_does_not_start_a_backend():
    """Importing the library must stay cheap, and leave the choice of platform and of precision to the user."""
    script = """
        import seponet
        from seponet import Domain, Periodic, Problem, Value, functions

        class Burgers(Problem):
            nu: float = 0.01
            domain = Domain(t=(0, 1), x=Periodic(0, 1))
            inputs = {"u": functions.SpectralField(domain["x"], sigma=25.0, tau=5.0, gamma=4.0)}
            conditions = [Value({"t": 0}, equals="u"), Value({"t": 1}, equals=0.5)]

            def equation(self, s, s_t, s_x, s_xx):
                return s_t + s * s_x - self.nu * s_xx

        Burgers(nu=0.1).terms(("x",))
        from jax._src import xla_bridge
        assert not xla_bridge.backends_are_initialized()
    """
    root = str(Path(__file__).parents[1])
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": root},
        check=False,
    )
    assert run.returncode == 0, run.stderr


def test_allen_cahn_has_no_jump_and_two_walls():
    assert [t.name for t in AllenCahn().terms(("t",))] == ["equation", "derivative x=0", "derivative x=1"]
