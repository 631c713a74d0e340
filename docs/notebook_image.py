"""The picture of docs/notebooks.md: the four plots, of two models of Swissmetro.

    python docs/notebook_image.py

Writes docs/images/plots.png. Takes about a minute.
"""

from io import BytesIO
from pathlib import Path

from matplotlib.figure import Figure
from PIL import Image

import setwise as sw

PICTURE = Path(__file__).parent / "images" / "plots.png"


def drawn() -> Figure:
    """The four plots side by side."""
    train, valid, test = sw.split(sw.datasets.load("swissmetro"), seed=0)
    mnl = sw.MNL().fit(train)
    sda = sw.SDA(ensemble=3).set_training(epochs=40).fit(train, valid)
    figure = Figure(figsize=(10.4, 7.6), layout="constrained")
    axes = figure.subplots(2, 2)
    sw.plots.coefficients(mnl, ax=axes[0, 0])
    for name, model in (("MNL", mnl), ("SDA", sda)):
        options = {"where": {"is_train": 1}, "label": name, "ax": axes[0, 1]}
        sw.plots.probability(model, test, "cost", **options)
        sw.plots.calibration(model, test, label=name, ax=axes[1, 0])
    sw.plots.learning_curve(sda, ax=axes[1, 1])
    return figure


def write() -> None:
    """In 64 colours, which are enough for lines."""
    picture = BytesIO()
    drawn().savefig(picture, format="png", dpi=85)
    few = Image.open(picture).convert("RGB").quantize(64)
    few.save(PICTURE, optimize=True)


if __name__ == "__main__":
    write()
