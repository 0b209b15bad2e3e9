"""The inner loops of detection, twice: compiled by Numba, and in NumPy for small data.

Compiling takes seconds at first use, and loading Numba half a second in every process: NumPy has
answered for small data before that. Both write the same values; only logarithms may differ in the
last bit. So the choice depends on the size of the whole data set, never of a block or part, and
parts give what one piece gives.
"""

from __future__ import annotations

from types import ModuleType

#: Values are summed as integer multiples of this, so that a sum does not depend on the order.
UNIT = 2.0**-40
#: A sample may miss a class's threshold by this much and still count as confident, and agrees with
#: its label if the predicted class is ahead by no more than this.
SLACK = 1e-6
#: How far the bound of a pair lies below its cut: more than the rounding of a margin in float32.
BOUND_SLACK = 2.0**-22
#: If a class has pairs with one in SOME_PAIRS of all classes, comparing all classes of a row in
#: vector code is faster than one pair after another. With one in MANY_PAIRS, it is also worth
#: reading a bound per class from memory.
SOME_PAIRS, MANY_PAIRS = 16, 8

#: No sample has a higher index; subtracted from it, a lower index is the larger number.
LAST_INDEX = 2**48 - 1

#: Up to so many probabilities, passes included, NumPy takes less time than loading Numba.
SMALL_VALUES = 2**22


def is_small(n_values: int) -> bool:
    """Whether a data set of so many probabilities, passes included, is processed in NumPy."""
    return n_values <= SMALL_VALUES


def choose_kernels(n_values: int) -> ModuleType:
    """The kernels for a data set of so many probabilities, passes included."""
    if is_small(n_values):
        from uqled.detect.core.kernels import plain

        return plain
    from uqled.detect.core.kernels import compiled

    return compiled
