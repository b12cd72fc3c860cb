"""Data that was published with its intervals."""

from __future__ import annotations

import math

# "Student", "The probable error of a mean" (1908), data of Cushny and Peebles: hours of sleep
# gained by ten patients under two drugs; made to be logarithms here.
SLEEP_1 = [math.exp(v) for v in (0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0)]
SLEEP_2 = [math.exp(v) for v in (1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4)]
