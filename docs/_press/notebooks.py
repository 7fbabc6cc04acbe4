"""Notebooks of the tutorials, from the same pages: text and code as cells, with the stored outputs.

python docs/_press/notebooks.py          # writes docs/notebooks/*.ipynb: `make notebooks`
"""

import base64
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import nbformat
from blocks import blocks_of
from outputs import DOCS, FOLDER, read_outputs

NOTEBOOKS = DOCS / "notebooks"
COMMENT = re.compile(r"<!--.*?-->\n?", re.DOTALL)
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?://)[^)]+\)")


def tutorials() -> list[str]:
    """The pages that exist as notebooks."""
    return sorted(path.relative_to(DOCS).as_posix() for path in (DOCS / "tutorials").glob("*.md"))


def notebook_of(page: str) -> Any:
    """The notebook of a page: Markdown between the blocks of Python, which are cells with their stored outputs."""
    text = (DOCS / page).read_text()
    blocks, cells, last = blocks_of(text), list[Any](), 0
    stored = read_outputs(page, blocks)
    for i, block in enumerate(blocks):
        if block.language != "python":
            continue
        _add_text(cells, text[last : block.start])
        cell = nbformat.v4.new_code_cell(block.code.rstrip(), id=f"code-{i}", execution_count=None)
        if i in stored:
            cell.outputs = list(_outputs(stored[i].text, stored[i].figures))
        cells.append(cell)
        last = block.end
    _add_text(cells, text[last:])
    about = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    return nbformat.v4.new_notebook(cells=cells, metadata=about)


def written(page: str) -> Path:
    return NOTEBOOKS / f"{Path(page).stem}.ipynb"


def text_of(notebook: Any) -> str:
    return nbformat.writes(notebook) + "\n"


def _add_text(cells: list[Any], text: str) -> None:
    """A cell of Markdown; links within the site lead nowhere from here, so their words stay alone."""
    text = LINK.sub(r"\1", COMMENT.sub("", text)).strip()
    if text:
        cells.append(nbformat.v4.new_markdown_cell(text, id=f"text-{len(cells)}"))


def _outputs(text: str, figures: tuple[str, ...]) -> Any:
    if text:
        yield nbformat.v4.new_output("stream", name="stdout", text=text + "\n")
    for name in figures:
        data = base64.b64encode((FOLDER / name).read_bytes()).decode()
        yield nbformat.v4.new_output("display_data", data={"image/png": data})


if __name__ == "__main__":
    NOTEBOOKS.mkdir(exist_ok=True)
    for page in tutorials():
        written(page).write_text(text_of(notebook_of(page)))
