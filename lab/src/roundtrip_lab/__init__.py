"""The lab: the runs of many devices, collected, queried and shown."""

__version__ = "0.1.0"
