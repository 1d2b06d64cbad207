"""Errors that the user can fix."""


class LabError(Exception):
    """One line: what failed, where, and how to fix it. The exit status is 2."""


class NotFoundError(LabError):
    """What was asked for does not exist."""
