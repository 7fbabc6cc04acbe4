"""Which test functions every term of a discretisation gets, and that there are as many rows as coefficients."""

import jax.numpy as jnp
import numpy as np
import pytest
from zoo import AllenCahn, Brusselator, KdV, Plate, Poisson, Reactor, Wave

from seponet import Domain, Problem, Residual, Value
from seponet.discretise.discretisation import Discretisation
from seponet.discretise.test_functions import is_square, make_tests, term_owners


class Channel(Problem):
    """Waves as a first-order system: one field has walls, the other none; the equations are named crosswise."""

    domain = Domain(t=(0, 1), x=(0, 1))
    fields = ("p", "q")
    conditions = [
        Value({"t": 0}, field="p", equals=lambda x: jnp.sin(jnp.pi * x)),
        Value({"t": 0}, field="q"),
        Value({"x": (0, 1)}, field="p"),
    ]

    def equation_a(self, q_t, p_x):
        return q_t - p_x

    def equation_b(self, p_t, q_x):
        return p_t - q_x


class Overdetermined(Problem):
    """Three equations for two fields: a gradient and its source."""

    domain = Domain(x=(0, 1), y=(0, 1))
    fields = ("p", "q")
    conditions = [Value({"x": (0, 1)}, field="p"), Value({"y": (0, 1)}, field="p")]

    def equation_x(self, p_x, q):
        return p_x - q

    def equation_y(self, p_y, q):
        return p_y - q

    def equation_source(self, p_xx, p_yy):
        return p_xx + p_yy - 1.0


def term_tests(problem, exact, ranks):
    """The test functions by the names of their terms."""
    discretisation = Discretisation.of(problem, exact, ranks)
    names = [term.name for term in problem.terms(discretisation.exact)]
    return dict(zip(names, make_tests(discretisation), strict=True))


def spans(basis, axis, degree_or_waves, periodic=False):
    """How far the functions of a basis are from the span of the first polynomials, or waves."""
    points = np.linspace(axis.lower, axis.upper, 60)
    if periodic:
        phase = 2 * np.pi * (points - axis.lower) / axis.length
        waves = (degree_or_waves - 1) // 2
        columns = [np.ones(60), *(f(k * phase) for k in range(1, waves + 1) for f in (np.cos, np.sin))]
        span = np.stack(columns, axis=1)
    else:
        span = np.polynomial.legendre.legvander(np.linspace(-1, 1, 60), degree_or_waves - 1)
    table = np.asarray(basis.table(points)[0])
    return np.abs(table - span @ np.linalg.lstsq(span, table, rcond=None)[0]).max() / np.abs(table).max()


def test_time_and_inflow_are_tested_by_the_first_polynomials_and_periodic_axes_by_waves():
    problem = KdV()
    (tests,) = term_tests(problem, ("t", "x"), {"t": 5, "x": 8}).values()
    assert tests.shape == (5, 9)  # waves come in pairs
    time, space = tests.bases
    assert spans(time, problem.domain.axis("t"), 5) < 1e-10
    assert spans(space, problem.domain.axis("x"), 9, periodic=True) < 1e-10
    assert spans(space, problem.domain.axis("x"), 7, periodic=True) > 0.1


def test_axes_with_as_many_conditions_at_both_ends_are_tested_by_their_trial_functions():
    for problem, name, order in ((Poisson(), "y", 0), (AllenCahn(), "x", 1), (Plate(), "x", 1)):
        ranks = dict.fromkeys(problem.domain, 5)
        discretisation = Discretisation.of(problem, problem.domain.names, ranks)
        (tests,) = make_tests(discretisation)
        position, axis = list(problem.domain).index(name), problem.domain.axis(name)
        points = np.linspace(axis.lower, axis.upper, 9)
        trial = discretisation.bases[position][0].table(points, order)
        basis = tests.bases[position]
        assert basis is not None
        np.testing.assert_array_equal(basis.table(points, order), trial)
        ends = basis.table(np.asarray([axis.lower, axis.upper]), order)[order]
        np.testing.assert_allclose(ends, 0.0, atol=1e-9 * np.abs(trial[order]).max())
        assert tests.shape == (5,) * len(ranks)


def test_soft_conditions_take_the_place_of_the_last_test_functions():
    tests = term_tests(Brusselator(), ("t",), {"t": 4, "x": 6})
    assert tests["equation_p"].shape == tests["equation_q"].shape == (4, 4)
    faces = [t for name, t in tests.items() if not name.startswith("equation")]
    assert [t.bases[1] for t in faces] == [None] * 4
    assert {t.shape for t in faces} == {(4, 1)}
    assert sorted(t.field for t in faces) == ["p", "p", "q", "q"]
    # They keep the traces of their field, though these are not imposed on the trial functions.
    ends = np.asarray([0.0, 1.0])
    p, q = (tests[name].bases[1] for name in ("equation_p", "equation_q"))
    assert p is not None
    assert q is not None
    np.testing.assert_allclose(p.table(ends)[0], 0.0, atol=1e-10)
    np.testing.assert_allclose(q.table(ends, 1)[1], 0.0, atol=1e-8)
    assert np.abs(q.table(ends)[0]).max() > 0.1


def test_a_test_function_vanishes_where_a_free_residual_holds():
    tests = term_tests(Reactor(), ("t", "x"), {"t": 3, "x": 5})
    equation, wall = tests.values()
    assert equation.shape == (3, 4)
    assert wall.shape == (3, 1)
    basis = equation.bases[1]
    assert basis is not None
    np.testing.assert_allclose(basis.table(np.asarray([0.0, 1.0]))[0], 0.0, atol=1e-10)


@pytest.mark.parametrize(
    ("problem", "exact"),
    [
        (Poisson(), ("x", "y")),
        (Poisson(), ("x",)),
        (Poisson(), ("y",)),
        (Poisson(), ()),
        (Wave(), ("x",)),  # two conditions at one end
        (Wave(), ()),
        (Brusselator(), ()),
        (Reactor(), ()),
        (Plate(), ()),
        (Channel(), ()),
    ],
)
def test_there_are_as_many_rows_as_coefficients(problem, exact):
    ranks = dict(zip(problem.domain, (6, 7), strict=True))
    discretisation = Discretisation.of(problem, exact, ranks)
    tests = make_tests(discretisation)
    assert is_square(discretisation, tests)
    assert sum(int(np.prod(t.shape)) for t in tests) == discretisation.size


def test_too_few_functions_for_soft_conditions_are_an_error():
    with pytest.raises(ValueError, match="y needs more than 2 functions, because it has as many soft conditions"):
        make_tests(Discretisation.of(Poisson(), ("x",), {"x": 3, "y": 2}))


def test_equations_are_tested_by_the_fields_that_they_are_about():
    problem = Channel()
    assert term_owners(problem, problem.terms(problem.domain.names)) == {"equation_a": "q", "equation_b": "p"}
    tests = term_tests(problem, ("t", "x"), {"t": 4, "x": 5})
    ends = np.asarray([0.0, 1.0])
    a, b = (tests[name].bases[1] for name in ("equation_a", "equation_b"))
    assert a is not None
    assert b is not None
    np.testing.assert_allclose(b.table(ends)[0], 0.0, atol=1e-10)
    assert np.abs(a.table(ends)[0]).min() > 0.1

    class Declared(Channel):
        tested_by = {"equation_a": "p", "equation_b": "q"}

    declared = Declared()
    terms = declared.terms(declared.domain.names)
    assert term_owners(declared, terms) == {"equation_a": "p", "equation_b": "q"}

    class Half(Channel):
        tested_by = {"equation_a": "p"}

    half = Half()
    assert term_owners(half, half.terms(half.domain.names)) == {"equation_a": "p", "equation_b": "q"}


def test_conditions_belong_to_the_field_that_they_differentiate_most():
    class Coupled(Channel):
        conditions = [
            Value({"t": 0}, field="p"),
            Value({"t": 0}, field="q"),
            Residual({"x": 0}, lambda p, q_x: q_x + p**2),
            Residual({"x": 1}, lambda p: p),
        ]

    problem = Coupled()
    owners = term_owners(problem, problem.terms(problem.domain.names))
    on_faces = [owner for name, owner in owners.items() if not name.startswith("equation")]
    assert on_faces == ["q", "p"]


def test_more_equations_than_fields_are_least_squares():
    problem = Overdetermined()
    discretisation = Discretisation.of(problem, ("x", "y"), {"x": 4, "y": 4})
    tests = make_tests(discretisation)
    assert not is_square(discretisation, tests)
    assert sum(int(np.prod(t.shape)) for t in tests) == 3 * 16
    assert {t.field for t in tests} == {"p", "q"}
