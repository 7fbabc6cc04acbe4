"""Pages that are made from the code, from stored results and from files of the repository's top folder."""

import json
import re
from pathlib import Path
from typing import Any

from problem_pages import problem_pages
from reference import command_line, recipe_keys

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
TABLES = {
    "scaling": "Scaling",
    "ablations": "Ablations",
    "peers": "Peers",
    "complexity": "Complexity",
    "inference": "Inference",
    "trust": "Coverage of error estimates",
    "devices": "Devices",
}


def made_pages() -> dict[str, str]:
    """Markdown by its place on the site."""
    pages = {
        "reference/command-line.md": command_line(),
        "reference/recipe-keys.md": recipe_keys(),
        "changelog.md": (ROOT / "CHANGELOG.md").read_text(),
        "contributing.md": (ROOT / "CONTRIBUTING.md").read_text(),
        "benchmarks/commands.md": (ROOT / "benchmarks" / "README.md")
        .read_text()
        .replace("# Benchmarks", "# Commands", 1),
        **problem_pages(),
    }
    for name, title in TABLES.items():
        text = (ROOT / "benchmarks" / "tables" / f"{name}.md").read_text()
        pages[f"benchmarks/{name}.md"] = text if text.startswith("# ") else f"# {title}\n\n{text}"
    return pages


def speeds_of_pages() -> str:
    """A table of `benchmarks/results/explorer.json`: how long a change of the input takes on each page."""
    stored = json.loads((ROOT / "benchmarks" / "results" / "explorer.json").read_text())
    rows = [
        "| page | grid | processor time | wall time, median | wanted | size |",
        "|---|---|---|---|---|---|",
    ]
    for page in stored["pages"]:
        grid = " x ".join(str(n) for n in page["grid"])
        processor = f"{page['processor_ms']:.1f} ms" if "processor_ms" in page else ""
        wanted = f"{page['wanted_ms']} ms" if "wanted_ms" in page else ""
        cells = [page["problem"], grid, processor, f"{page['median_ms']:.1f} ms", wanted, f"{page['megabytes']:.2f} MB"]
        rows.append(f"| {' | '.join(cells)} |")
    machine = stored.get("machine", {})
    if "load" in machine:
        rows += ["", f"Measured while {machine['load']:.0f} programs shared {machine['cores']} cores."]
    return "\n".join(rows)


def made_texts(nav: list[Any]) -> dict[str, str]:
    """Files that are no pages: `llms.txt`, the site in one text for language models."""
    return {"llms.txt": llms(nav)}


def llms(nav: list[Any]) -> str:
    """An overview of the site by its navigation: every page with its first sentence."""
    from seponet import __doc__ as purpose

    lines = ["# seponet", "", f"> {purpose}", ""]
    made = made_pages()
    for title, target in _entries(nav):
        if target is None:
            lines += ["", f"## {title}", ""]
        else:
            path = DOCS / target
            text = path.read_text() if path.exists() else made.get(target, "")
            lines.append(f"- [{title}]({target.removesuffix('.md')}.html): {_first_sentence(text)}")
    return "\n".join(lines) + "\n"


def _entries(nav: list[Any]) -> Any:
    for entry in nav:
        ((title, target),) = entry.items() if isinstance(entry, dict) else [(entry, entry)]
        if isinstance(target, list):
            yield title, None
            yield from _entries(target)
        else:
            yield title, target


def _first_sentence(text: str) -> str:
    """The first sentence of the first paragraph that is one."""
    plain = re.sub(r"<!--.*?-->|^```.*?^```|^\$\$.*?\$\$", "", text, flags=re.DOTALL | re.MULTILINE)
    for paragraph in plain.split("\n\n"):
        words = " ".join(paragraph.split())
        if words and (words[0] not in "#|!<-:>" or words.startswith("**")):
            words = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", words).replace("**", "")
            return re.split(r"(?<=[.?])\s", words)[0]
    return ""
