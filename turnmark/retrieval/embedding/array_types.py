"""Names for the kinds of arrays that models return."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float32]
"""Vectors or scores, as models compute them."""
TokenIds = NDArray[np.int32]
"""Numbers of tokens in a model's vocabulary."""
