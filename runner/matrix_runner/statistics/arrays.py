"""numpy, imported at its first use: it is an extra, and takes a quarter of the second in which a command answers."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = ["Bools", "Floats", "Levels", "np"]

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Bools = NDArray[np.bool_]
    Levels = NDArray[np.int64]
else:
    Floats = Bools = Levels = Any

    class _AtFirstUse:
        def __getattr__(self, name):
            found = getattr(import_module("numpy"), name)
            setattr(self, name, found)
            return found

    np = _AtFirstUse()
