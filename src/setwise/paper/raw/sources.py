"""The public raw files by name: read them, build data files from them, and imitate them."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from setwise._arguments import callback, checked, optional, text
from setwise._arguments import path as check_path
from setwise._errors import InputError
from setwise._files import check_writable
from setwise.choices import Choices, open_choices, save_choices
from setwise.choices.choices import Column
from setwise.paper.raw.amadeus import load_amadeus
from setwise.paper.raw.drawing import Truth
from setwise.paper.raw.expedia import load_expedia
from setwise.paper.raw.files import OnStep
from setwise.paper.raw.imitated_amadeus import amadeus
from setwise.paper.raw.imitated_expedia import expedia
from setwise.paper.raw.imitated_outbrain import outbrain
from setwise.paper.raw.outbrain import load_outbrain
from setwise.paper.raw.sets import RawChoices


@dataclass(frozen=True)
class RawSource:
    """What is known about a public data set, how to read its files, and how to imitate them."""

    name: str
    summary: str
    source: str
    load: Callable[..., RawChoices]
    draw: Callable[..., Truth]


RAW_SUFFIXES = (".csv", ".gz", ".zip", ".parquet")

RAW: Mapping[str, RawSource] = {
    one.name: one
    for one in (
        RawSource(
            "expedia", "Hotels that a search shows, one clicked (or booked): 399 thousand searches",
            "Personalize Expedia Hotel Searches, ICDM 2013 (Kaggle): train.csv",
            load_expedia, expedia,
        ),
        RawSource(
            "outbrain", "Articles recommended on a page, one clicked: 16.9 million pages",
            "Outbrain Click Prediction, 2016 (Kaggle): clicks_train.csv and five more",
            load_outbrain, outbrain,
        ),
        RawSource(
            "amadeus", "Flight itineraries that a search shows, one booked",
            "Mottini and Acuna-Agost (2017), on request: amadeus_itinerary.parquet",
            load_amadeus, amadeus,
        ),
    )
}  # fmt: skip


@checked(name=text, path=check_path, view=text, on_step=optional(callback))
def load_raw(
    name: str,
    path: str | Path,
    view: str = "paper",
    on_step: OnStep | None = None,
    **options: Any,
) -> Choices:
    """Choices from the raw files of a public data set, in memory.

    Args:
        name: "expedia", "outbrain" or "amadeus".
        path: the folder with the files as they are downloaded, or the one file.
        view: "paper" for the paper's features, "full" for all; see docs/raw-data.md.
        on_step: called with what is being done.
        options: of the data set: ``outcome="book"`` for Expedia's bookings instead of clicks.
    """
    raw = _find(name).load(Path(path), view=view, on_step=on_step, **options)
    rows = np.arange(raw.frame.offsets[-1])
    return replace(raw.frame, columns=dict(raw.columns), table_rows=rows)


@checked(name=text, raw=check_path, out=check_path, view=text, on_step=optional(callback))
def build(
    name: str,
    raw: str | Path,
    out: str | Path,
    view: str = "paper",
    on_step: OnStep | None = None,
    **options: Any,
) -> Choices:
    """Build a data file from the raw files of a public data set, and open it.

    The file is written column by column: of data larger than memory, one column is in memory at a
    time. The arguments are those of :func:`load_raw`, with its ``path`` as ``raw``, and ``out``,
    the file to write, which must not be one of the raw files.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     truth = imitate("amadeus", folder, sets=50)
    ...     len(build("amadeus", folder, f"{folder}/flights.setwise-data")) <= 50
    True
    """
    source = _find(name)
    check_writable(out, reads=raw_files(raw))
    found = source.load(Path(raw), view=view, on_step=on_step, **options)
    save_choices(found.frame, out, _announced(found.columns, on_step or (lambda text: None)))
    return open_choices(out)


def raw_files(raw: str | Path) -> list[Path]:
    """The files that may be read of a path to raw files: itself, or the tables in a folder."""
    path = Path(raw)
    if not path.is_dir():
        return [path]
    return [one for one in path.iterdir() if one.suffix.lower() in RAW_SUFFIXES]


@checked(name=text, out=check_path)
def imitate(name: str, out: str | Path, sets: int, seed: int = 0, **options: Any) -> Truth:
    """Write generated files in the raw format of a public data set: its columns, types and gaps.

    The choices are drawn from a known model in which context matters; the result describes it.
    The folder's GENERATED.txt says that the files are not real, and files that are not labelled so
    are never written over.

    Args:
        name: "expedia", "outbrain" or "amadeus".
        out: the folder; it is made if it is not there.
        sets: how many choice sets.
        seed: the same seed gives the same files.
        options: ``zipped=True`` for zips as they are downloaded (not Amadeus); ``on_sets``, called
            with the number of sets written so far.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     truth = imitate("expedia", folder, sets=20)
    ...     sorted(path.name for path in Path(folder).iterdir())
    ['GENERATED.txt', 'train.csv']
    """
    return _find(name).draw(Path(out), sets=sets, seed=seed, **options)


def _find(name: str) -> RawSource:
    if name not in RAW:
        raise InputError(f"there is no raw data set {name!r}; there are: {', '.join(RAW)}")
    return RAW[name]


def _announced(
    columns: Iterator[tuple[str, Column]], on_step: OnStep
) -> Iterator[tuple[str, Column]]:
    on_step("making the item columns")
    for name, column in columns:
        on_step(f"writing {name}")
        yield name, column
