"""The questions that a data set answers, each in a file: ibis expressions that every engine runs.

The engine reduces the data set to some rows for each series, build, day or device. What needs the distribution
of a test statistic is computed from these rows with scipy.

An answer is a pandas DataFrame. `series` says what was measured, and starts with the test and the driver.
"""

from roundtrip_lab.queries.builds import Order, builds
from roundtrip_lab.queries.causes import causes
from roundtrip_lab.queries.changes import changes
from roundtrip_lab.queries.devices import outliers, worst_devices
from roundtrip_lab.queries.distribution import distribution
from roundtrip_lab.queries.filters import Filters, check
from roundtrip_lab.queries.layers import layers
from roundtrip_lab.queries.percentiles import fetched, misses, percentiles
from roundtrip_lab.queries.regressions import regressions

__all__ = [
    "Filters", "Order", "builds", "causes", "changes", "check", "distribution", "fetched", "layers", "misses", "outliers", "percentiles",
    "regressions", "worst_devices",
]  # fmt: skip
