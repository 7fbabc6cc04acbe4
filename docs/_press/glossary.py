"""Words of the glossary: each has an anchor on its page, and docstrings in the reference lead there."""

import re
from pathlib import Path

GLOSSARY = Path(__file__).parent.parent / "glossary.md"
ROW = re.compile(r"^\| ((?:\*\*[^*|]+\*\*(?:, )?)+) \|", re.MULTILINE)
BOLD = re.compile(r"<strong>([^<]+)</strong>")
TAG = re.compile(r"(<[^>]*>)")
CLOSED = ("code", "pre", "a", "math", "h1", "h2", "h3", "h4", "h5", "h6")
"""Elements whose text is left as it is."""
EVERYDAY = {"field", "functions", "input", "parameters", "term", "location", "coefficient", "exact"}
"""Words that readers know well enough, and that would make a page of links."""


def words() -> list[str]:
    """The words of the glossary, in its order."""
    return [word for row in ROW.finditer(GLOSSARY.read_text()) for word in re.findall(r"\*\*([^*]+)\*\*", row[1])]


def anchor(word: str) -> str:
    return word.replace(" ", "-")


def with_anchors(content: str) -> str:
    """The glossary, as HTML, with an anchor at each of its words."""
    known = set(words())
    return BOLD.sub(
        lambda bold: f'<strong id="{anchor(bold[1])}">{bold[1]}</strong>' if bold[1] in known else bold[0], content
    )


def with_links(content: str, page: str) -> str:
    """A page of the reference, as HTML, in which the first use of a word in each docstring leads to the glossary."""
    names = {word.removesuffix("s"): word for word in words() if word not in EVERYDAY}
    pattern = re.compile(rf"\b({'|'.join(sorted(map(re.escape, names), key=len, reverse=True))})(e?s)?\b")
    parts, seen, closed, inside = TAG.split(content), set[str](), 0, False
    for i, part in enumerate(parts):
        if part.startswith("<"):
            name = re.sub(r"\W.*", "", part.lstrip("</"))
            if name in CLOSED:
                closed += -1 if part.startswith("</") else 1
            if 'class="doc doc-object' in part:
                inside = True
                seen.clear()
        elif inside and not closed:
            parts[i] = pattern.sub(lambda found: _link(found, names[found[1]], page, seen), part)
    return "".join(parts)


def _link(found: re.Match[str], word: str, page: str, seen: set[str]) -> str:
    if word in seen:
        return found[0]
    seen.add(word)
    return f'<a class="glossary" href="{page}#{anchor(word)}">{found[0]}</a>'
