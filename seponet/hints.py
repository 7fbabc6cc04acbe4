"""What somebody who wrote an unknown word may have meant."""

import difflib
from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that is nearest to a mistaken one, if any is near."""
    found = difflib.get_close_matches(word.lower().replace("-", "_"), list(known), n=1, cutoff=0.4)
    return found[0] if found else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint to put behind the mistaken word, or nothing."""
    near = nearest(word, known)
    return f" (did you mean {near!r}?)" if near else ""
