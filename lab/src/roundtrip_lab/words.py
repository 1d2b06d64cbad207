"""Makes text of unknown origin safe to print on a terminal."""

import unicodedata


def inert(text: str) -> str:
    """Escapes control characters and those that change the direction of text."""
    return "".join(
        f"\\u{ord(c):04x}" if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") else c for c in text
    )
