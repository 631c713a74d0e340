"""How much of the machine training uses: operations of a step against the matrix-product rate.

``operations`` counts by hand; run as a script, this measures the rate and asks XLA for its count.
"""

import argparse
from collections.abc import Sequence
from typing import NamedTuple

from report import emit, timed


class Shape(NamedTuple):
    """Sizes of one training step of SDA."""

    batch: int
    items: int
    features: int
    dimension: int = 24
    components: int = 16
    hidden: int = 16

    @property
    def parameters(self) -> int:
        """Theta, the two set networks, and c."""
        scores = self.dimension * self.components
        h = self.hidden
        networks = 2 * (scores * h + h + h * h + h) + (h + 1) * (self.dimension + scores)
        return self.features * scores + networks + 1


def operations(shape: Shape) -> int:
    """Floating-point operations of one step, products only (tanh, masks and softmax left out).

    A product of (a x b) and (b x c) takes 2abc. In the order that setwise contracts, with B sets a
    batch, n items per set, d features, l score functions of k components and h hidden units:

        forward, both networks:  Theta W1      2 * 2 d (lk) h      once a batch
                                 x (Theta W1)  2 * 2 B n d h       (*)
                                 second layer  2 B n (2h) (2h)     the networks beside each other
                                 last layer    2 B h (l + lk)
        forward, comparison:     Theta_i r_i   2 B d (lk)
                                 x (Theta r)   2 B n d l           (*)
        forward, weights:        mu(z) w       2 B n l

    Going back, each product needs two of the same size, one for each factor, but those marked (*)
    need one: no gradient flows to the data. Adam with weight decay takes about 16 a parameter.
    """
    B, n, d, l, k, h = shape  # noqa: E741
    with_data = 4 * B * n * d * h + 2 * B * n * d * l
    others = (
        4 * d * l * k * h + 8 * B * n * h * h + 2 * B * h * (l + l * k)
        + 2 * B * d * l * k + 2 * B * n * l
    )  # fmt: skip
    return 2 * with_data + 3 * others + 16 * shape.parameters


def matrix_product_rate(sizes: Sequence[int] = (1024, 2048, 4096)) -> float:
    """The best rate of float32 matrix products here, in operations per second: JAX or NumPy."""
    import jax
    import numpy as np

    square = jax.jit(lambda a: a @ a)

    def best(size: int) -> float:
        a = np.random.default_rng(0).standard_normal((size, size)).astype(np.float32)
        on_device = jax.device_put(a)
        square(on_device).block_until_ready()
        ways = (lambda: square(on_device).block_until_ready(), lambda: a @ a)
        return 2 * size**3 / min(timed(way)[0] for way in ways * 5)

    return max(best(size) for size in sizes)


def operations_by_xla(shape: Shape) -> float | None:
    """XLA's own count for one step, element-wise operations included; None where it gives none.

    There is no public way to the compiled program, so this looks into ``setwise.training``. XLA
    counts the body of a loop once: its count for an epoch is that of a step.
    """
    import jax
    import jax.numpy as jnp
    import numpy as np

    from setwise.choices import Encoded
    from setwise.models import ZOO, Sizes
    from setwise.training import epoch
    from setwise.training.device import to_device

    sets, rows = shape.batch, shape.batch * shape.items
    encoded = Encoded(
        np.zeros((rows, shape.features)), np.zeros((sets, 0)),
        np.arange(sets + 1) * shape.items, np.zeros(sets, np.int64), None,
    )  # fmt: skip
    sizes = Sizes(shape.dimension, shape.components, shape.hidden)
    state = epoch.start([ZOO["sda_inner"].build(shape.features, sizes, jax.random.key(0))], 1)
    hyper = epoch.Hyper(jnp.full((1, 1), 1e-3), jnp.full((1, 1), 1e-2), None)
    batches = epoch.EpochBatches(
        jnp.zeros((1, 40, sets), jnp.int32), jax.random.key(0)[None], jnp.zeros(40, jnp.int32)
    )
    program = epoch.EpochProgram("cross_entropy", (shape.items,))
    lowered = epoch.run_epoch.lower((to_device(encoded), batches, hyper), state, program)
    costs = lowered.compile().compiled.cost_analysis() or {}
    return costs.get("flops")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("batch", "items", "features"):
        parser.add_argument(name, type=int)
    parser.add_argument("--quick", action="store_true", help="a smoke test: figures mean nothing")
    given = parser.parse_args()
    shape = Shape(given.batch, given.items, given.features)
    emit(
        {
            "matrix_product_rate": matrix_product_rate((128,))
            if given.quick
            else matrix_product_rate(),
            "operations_by_xla": operations_by_xla(shape),
        }
    )


if __name__ == "__main__":
    main()
