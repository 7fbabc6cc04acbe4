"""A folder of explorer pages with an index, each page a file that needs nothing."""

import base64
import hashlib
import html
import io
import logging
import re
from collections.abc import Mapping
from pathlib import Path

import jax

from .._files import write_text
from .._text import percent
from ..equations.describe import describe_equations
from ..operator.facts import facts_of
from ..operator.operator import Operator

logger = logging.getLogger(__name__)

STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1080px; margin: 24px auto; padding: 0 14px; }
ul { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 320px), 1fr)); gap: 16px; padding: 0; }
li { list-style: none; border: 1px solid #8886; border-radius: 10px; padding: 12px; min-width: 0; }
li p { overflow-wrap: anywhere; }
img { display: block; width: 100%; border-radius: 4px; margin-bottom: 8px; background: #fff; }
a { font-weight: 600; } p { margin: 2px 0; } .quiet { opacity: .75; font-size: 13px; }
"""


def write_gallery(operators: Mapping[str, Operator], folder: Path) -> Path:
    """Write one page for each operator, and `index.html` with links to them.

    **Arguments:**

    - `operators`: by the name or the folder of their run.
    - `folder`: is made if needed. Files in it that are not part of the gallery stay.

    **Returns:** the path of the index.
    """
    names = {key: re.sub(r"\W+", "-", Path(key).name.partition(":")[0].removesuffix(".py")) for key in operators}
    if len(set(names.values())) < len(names) or "index" in names.values():
        raise ValueError(f"every page needs a name of its own, and none is called index; got {', '.join(names)}")
    folder.mkdir(parents=True, exist_ok=True)
    entries: list[str] = []
    for key, operator in operators.items():
        page = operator.export(folder / f"{names[key]}.html")
        facts = facts_of(operator)
        error = f"mean error {percent(facts['test_error']['mean'])}" if "test_error" in facts else "error not measured"
        title = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(operator.problem).__name__)
        entries.append(
            f'<li>{_preview(operator, title)}<a href="{html.escape(page.name)}">{html.escape(title)}</a>'
            f"<p>{html.escape('; '.join(describe_equations(operator.problem)))}</p>"
            f'<p class="quiet">{error}, {page.stat().st_size / 1e6:.1f} MB</p></li>'
        )
    digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    index = folder / "index.html"
    write_text(
        index,
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data:; '
        f"style-src 'sha256-{digest}'\">"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Operators to draw on</title><style>{STYLE}</style></head>\n<body><h1>Operators to draw on</h1>"
        "<p>Each page is one file: draw the input, watch the solution.</p>\n"
        f"<ul>{''.join(entries)}</ul></body></html>\n",
    )
    return index


def _preview(operator: Operator, title: str) -> str:
    """A small picture of one input and its solution; none where Matplotlib is not installed."""
    problem = operator.problem
    try:
        figure = operator.plot(problem.sample(jax.random.key(3), 1) if problem.inputs else None, error=False)
    except (ImportError, ValueError) as error:
        logger.info("no preview of %s: %s", title, error)
        return ""
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=72, bbox_inches="tight")
    content = base64.b64encode(picture.getvalue()).decode()
    return f'<img alt="An input and its solution: {html.escape(title)}" src="data:image/png;base64,{content}">'
