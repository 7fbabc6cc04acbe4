"""A page for each registered problem: equation, picture, measured errors, commands.

python docs/_press/problem_pages.py          # draws the pictures: `make outputs`
"""

import importlib.util
import inspect
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from outputs import DOCS, FOLDER

RESULTS = DOCS.parent / "benchmarks" / "results"
EXPLORERS = DOCS / "gallery"
QUANTITY = {"navier_stokes": "vorticity"}
TITLES = {
    "advection_informed": "advection, structure-informed",
    "diffusion_reaction": "diffusion-reaction",
    "navier_stokes": "Navier-Stokes",
}
EXAMPLES = DOCS.parent / "examples"
PROGRAM = re.compile(r'id="program">(.*?)</script>', re.DOTALL)


@dataclass(frozen=True)
class Example:
    """A problem of `examples/` that has a page: where its class is, its name in words, and its picture in `docs`."""

    kind: str
    title: str
    picture: str
    shows: str


MAPPED = {
    "star_poisson": Example("Star", "Poisson in a star", "geometry-star.png", "three walls and their solutions"),
    "annulus_heat": Example("Ring", "Heat in a ring", "geometry-ring.png", "two inner walls and the heat at t = 1"),
}


def problem_pages() -> dict[str, str]:
    """All pages by their place on the site, the overview first."""
    from seponet.problems import PROBLEMS

    cards = [f"| [{title(name)}]({name}.md) | {_equation(kind)} | {_best(name)} |" for name, kind in PROBLEMS.items()]
    head = "# Gallery\n\nThe problems of the package: the paper's, and one variant. Errors are means over 100 unseen "
    head += "functions, with the most accurate recipe that was measured ([Benchmarks](../benchmarks.md)).\n"
    table = "\n".join(["| problem | equation | error |", "|---|---|---|", *cards])
    shapes = "\n".join(f"- [{example.title}]({name}.md): {_about(name)}" for name, example in MAPPED.items())
    foot = f"\n\nWith shapes as inputs, on [mapped domains](../geometry.md):\n\n{shapes}\n"
    foot += "\nTwenty more PDEs, with references of their own, are in `benchmarks/zoo` of the repository.\n"
    if (EXPLORERS / "index.html").exists():
        foot += (
            '\n<a href="../gallery/index.html">Explorers</a>: draw the inputs of all these problems in the browser.\n'
        )
    pages = {"problems/index.md": f"{head}\n{table}{foot}"}
    pages |= {f"problems/{name}.md": _page(name, kind) for name, kind in PROBLEMS.items()}
    return pages | {f"problems/{name}.md": _mapped_page(name, example) for name, example in MAPPED.items()}


def title(name: str) -> str:
    words = TITLES.get(name, name.replace("_", " "))
    return words[0].upper() + words[1:]


def _equation(kind: type) -> str:
    """The first line of a problem's file: its equation."""
    text = inspect.getdoc(inspect.getmodule(kind)) or ""
    return " ".join(text.split("\n\n")[0].split())


def _page(name: str, kind: type) -> str:
    parts = [f"# {title(name)}\n", _equation(kind) + "\n", (inspect.getdoc(kind) or "") + "\n"]
    if (FOLDER / f"problem-{name}.png").exists():
        parts.append(f"![{title(name)}: one input and its reference solution](../outputs/problem-{name}.png)\n")
    rows = list(_errors(name))
    if rows:
        parts.append("## Errors\n\nMean relative L2 error over 100 unseen functions against a converged reference.\n")
        head = ["| recipe | error | seconds of training, one or two CPU cores |", "|---|---|---|"]
        parts.append("\n".join([*head, *rows]) + "\n")
    parts.append(f"## Run it\n\n```sh\nseponet train {name}\nseponet explore runs/{name}-quick\n```\n")
    parts.append(_explorer(name))
    source = inspect.getsource(kind)
    parts.append(f"## As it is written\n\n```{{ .python .no-run }}\n{source.rstrip()}\n```\n")
    return "\n".join(parts)


def _mapped_page(name: str, example: Example) -> str:
    """The page of an example: its own words, its picture, and the errors of the operator in its explorer."""
    kind = _class(name, example)
    module = inspect.getdoc(sys.modules[kind.__module__]) or ""
    parts = [f"# {example.title}\n", module.partition("\n\n")[0] + "\n", (inspect.getdoc(kind) or "") + "\n"]
    parts.append(f"![{example.title}: {example.shows}](../{example.picture})\n")
    if (EXPLORERS / f"{name}.html").exists():
        parts.append(f"## Errors\n\nThe recipe `quick`: {_about(name)}.\n")
    command = f"seponet train examples/{name}.py:{example.kind}\nseponet explore runs/{example.kind}-quick"
    parts.append(f"## Run it\n\nIn a checkout of the repository:\n\n```text\n{command}\n```\n")
    parts.append(_explorer(name))
    parts.append(f"## As it is written\n\n```{{ .python .no-run }}\n{inspect.getsource(kind).rstrip()}\n```\n")
    return "\n".join(parts)


def _class(name: str, example: Example) -> Any:
    specification = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    if specification is None or specification.loader is None:
        raise ValueError(f"there is no examples/{name}.py")
    module = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = module
    specification.loader.exec_module(module)
    return getattr(module, example.kind)


def _about(name: str) -> str:
    """What the explorer's page of a problem says of the errors of its operator."""
    path = EXPLORERS / f"{name}.html"
    found = PROGRAM.search(path.read_text()) if path.exists() else None
    error = json.loads(found[1])["about"].get("test_error") if found else None
    if not error:
        return "not measured yet"
    return f"mean relative L2 error {_percent(error['mean'])} over {error['functions']} unseen functions"


def _explorer(name: str) -> str:
    """The explorer in the page, and a link to it alone."""
    if not (EXPLORERS / f"{name}.html").exists():
        return ""
    return (
        "## Draw the input, watch the solution\n\n"
        f'This is the exported page of an operator, one file (<a href="../gallery/{name}.html">alone</a>; '
        "[what it can do](../explorer.md)).\n\n"
        f'<iframe class="explorer" src="../gallery/{name}.html" title="Explorer: {name}" loading="lazy"></iframe>\n'
    )


def _errors(name: str) -> Any:
    for path in sorted(RESULTS.glob(f"accuracy_{name}_*.json")):
        result = json.loads(path.read_text())
        if result["problem"] == name:
            seconds = max(row["seconds"] for row in result["rows"])
            yield f"| `{result['recipe']}` | {_percent(_mean(result))} | {seconds:.0f} |"
    for path in sorted(RESULTS.glob(f"{name}_*.json")):
        result = json.loads(path.read_text())
        if "T=0.1" in result:
            errors = [f"{_percent(result[t]['relative_l2']['mean'])} at {t}" for t in ("T=0.1", "T=1") if t in result]
            recipe = path.stem.removeprefix(f"{name}_")
            yield f"| `{recipe}` | {', '.join(errors)} | {result['training_seconds']:.0f} |"


def _mean(result: dict[str, Any]) -> float:
    errors = [row["relative_l2_mean"] for row in result["rows"]]
    return sum(errors) / len(errors)


def _best(name: str) -> str:
    rows = [row.split(" | ") for row in _errors(name)]
    return min((row[1] for row in rows), key=lambda text: float(re.match(r"[\d.e-]+", text)[0]), default="")  # pyright: ignore[reportOptionalSubscript]


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.2g}%"


def draw() -> None:
    """One input and its reference solution for each problem."""
    from seponet.evaluation.testset import find_testset
    from seponet.plots import plot_sample
    from seponet.problems import PROBLEMS

    FOLDER.mkdir(exist_ok=True)
    for name, kind in PROBLEMS.items():
        testset = find_testset(kind(), "test", 2)
        plot_sample(testset, FOLDER / f"problem-{name}.png", quantity=QUANTITY.get(name))


if __name__ == "__main__":
    draw()
