"""Text of unknown origin: makes it safe to print on a terminal, and orders names with numbers."""

import re
import unicodedata


def inert(text: str) -> str:
    """Escapes control characters and those that change the direction of text."""
    return "".join(
        f"\\u{ord(c):04x}" if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") else c for c in text
    )


def natural(text: str) -> list:
    """Orders build-9 before build-10."""
    return [(part.isdigit(), int(part) if part.isdigit() else 0, part) for part in re.split(r"([0-9]+)", text)]


def count_of(number: int, noun: str) -> str:
    """A number with its noun: 1 night, 2 nights."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
