"""Shapes of arrays in annotations: jaxtyping's, or, where nobody checks them, mere names.

jaxtyping takes as long to import as half of NumPy. Who only scores imports neither it nor what
checks types; who checks types (the tests do) has imported it before setwise.
"""

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or "jaxtyping" in sys.modules:
    from jaxtyping import Bool, Float, Float32, Float64, Int, Num, Shaped
else:

    class Shaped:
        """``Shaped[np.ndarray, " rows"]`` is an array; what else it says is for readers."""

        def __class_getitem__(cls, described: tuple[Any, str]) -> Any:
            return described[0]

    Bool = Float = Float32 = Float64 = Int = Num = Shaped

__all__ = ["Bool", "Float", "Float32", "Float64", "Int", "Num", "Shaped"]
