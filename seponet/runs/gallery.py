"""A folder of explorer pages with an index, each page a file that needs nothing."""

import base64
import hashlib
import html
import re
from collections.abc import Mapping
from pathlib import Path

from .._files import write_text
from .._text import percent
from ..equations.describe import describe_equations
from ..operator.facts import facts_of
from ..operator.operator import Operator

STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 820px; margin: 24px auto; padding: 0 14px; }
li { margin: 12px 0; } a { font-weight: 600; } p { margin: 2px 0; } .quiet { opacity: .7; font-size: 13px; }
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
            f'<li><a href="{html.escape(page.name)}">{html.escape(title)}</a>'
            f"<p>{html.escape('; '.join(describe_equations(operator.problem)))}</p>"
            f'<p class="quiet">{error}, {page.stat().st_size / 1e6:.1f} MB</p></li>'
        )
    digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    index = folder / "index.html"
    write_text(
        index,
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'sha256-{digest}'\">"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Operators to draw on</title><style>{STYLE}</style></head>\n<body><h1>Operators to draw on</h1>"
        "<p>Each page is one file: draw the input, watch the solution.</p>\n"
        f"<ul>{''.join(entries)}</ul></body></html>\n",
    )
    return index
