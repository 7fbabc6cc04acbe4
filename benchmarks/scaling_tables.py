"""The tables of the scaling study, in the layout of the paper's Tables 3, 6 and 7."""

from collections.abc import Callable, Sequence

import published
import tables
from study import Finished, Outcome

NAMES = {
    "seponet_cp": "SepONet-CP",
    "seponet_tucker": "SepONet-Tucker",
    "deeponet_repeated": "PI-DeepONet, as in the paper",
    "deeponet": "PI-DeepONet, done well",
}
THEIRS = ("SepONet", "PI-DeepONet")
PROBLEMS = ("diffusion_reaction", "advection", "burgers", "nonlinear_diffusion")
POINTS = tuple((n, 100) for n in (8, 16, 32, 64, 128))
FUNCTIONS = tuple((128, f) for f in (5, 10, 20, 50, 100))
EXTREME = tuple((n, f) for n in (128, 256, 512) for f in (400, 800))

Sizes = Sequence[tuple[int, int]]
Lookup = Callable[[str, str, int, int], float | None]


def write(costs: Finished, errors: Finished) -> None:
    """Write `tables/scaling.md`."""
    quantities: list[tuple[str, Finished, str, Callable[[float], str], Lookup]] = [
        ("Time of a training step", costs, "seconds", tables.seconds, published.step_seconds),
        ("Memory of a training step", costs, "bytes", tables.size, published.memory),
        ("Relative L2 error", errors, "relative_l2_mean", tables.percent, published.error),
    ]
    parts = [
        "# Scaling",
        f"One training step of the paper's recipes on {tables.cores(costs)}. The columns *paper, A100* are the "
        "authors': their training time over their iterations, and the memory of their GPU process. Our memory is that "
        "of the compiled step (arguments, results, temporaries) / the peak of the whole process, libraries and "
        "compiler included. Errors: of 100 unseen functions against a converged reference, after the same number of "
        "steps for all sizes of a problem and model, which is a part of the paper's (its schedule is compressed); one "
        "seed. Trainings that would take more than half an hour are left out, with the time that they would take.",
        tables.NOTE,
    ]
    for heading, finished, key, form, lookup in quantities:
        parts.append(f"## {heading}")
        for problem in PROBLEMS:
            sizes = [*POINTS, *FUNCTIONS[:-1]]
            parts += [f"### {tables.title(problem)}", _table(problem, sizes, finished, key, form, lookup, tuple(NAMES))]
    parts.append("## Extreme scale: Burgers (Table 3)")
    for heading, finished, key, form, lookup in quantities:
        table = _table("burgers", EXTREME, finished, key, form, lookup, ("seponet_cp", "seponet_tucker"), THEIRS[:1])
        parts += [heading, table]
    tables.write("scaling", parts)


def _table(
    problem: str,
    sizes: Sizes,
    found: Finished,
    key: str,
    form: Callable[[float], str],
    lookup: Lookup,
    models: Sequence[str],
    paper: Sequence[str] = THEIRS,
) -> str:
    outcomes = {(o.cell["model"], o.cell["points"], o.cell["functions"]): o for o in of_problem(found, problem)}
    power = 3 if problem == "nonlinear_diffusion" else 2
    rows = [] if key != "relative_l2_mean" else [_steps(problem, models, len(paper))]
    for points, functions in sizes:
        mine = [_entry(outcomes.get((model, points, functions)), key, form) for model in models]
        others = [tables.theirs(lookup(problem, model, points, functions), form) for model in paper]
        rows.append([f"{points}^{power}", str(functions), *mine, *others])
    return tables.markdown(
        ["points", "functions", *(NAMES[m] for m in models), *(f"{model}, paper, A100" for model in paper)], rows
    )


def _steps(problem: str, models: Sequence[str], others: int) -> list[str]:
    """The first row of errors: after how many steps."""
    from scaling import steps_of

    whole = published.steps(problem)
    return ["", "", *(f"{steps_of(problem, model)} steps" for model in models), *[f"{whole} steps"] * others]


def _entry(outcome: Outcome | None, key: str, form: Callable[[float], str]) -> str:
    if outcome is not None and "diverged" in outcome.result:
        return "diverged"
    if key == "relative_l2_mean" and outcome is not None and "training_seconds" in outcome.result:
        return f"*{tables.seconds(outcome.result['training_seconds'])}*"
    text = tables.show(outcome, key, form)
    if key == "bytes" and outcome is not None and outcome.measured:
        return f"{text} / {form(outcome.result['process_bytes'])}"
    return text


def of_problem(found: Finished, problem: str) -> list[Outcome]:
    return [outcome for outcome in found.values() if outcome.cell["problem"] == problem]
