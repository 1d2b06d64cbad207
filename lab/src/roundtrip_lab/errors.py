"""What goes wrong for a reason that the user can change."""


class LabError(Exception):
    """Its text is one line: what, where, and how to fix it. The command ends with status 2."""
