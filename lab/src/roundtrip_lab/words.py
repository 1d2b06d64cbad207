"""Text of unknown origin, made inert for a terminal."""

import unicodedata


def inert(text: str) -> str:
    """Shows control characters, and those that turn the direction of writing, by number."""
    return "".join(
        f"\\u{ord(c):04x}" if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") else c for c in text
    )
