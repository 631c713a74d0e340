"""What all imitations of raw files share: random streams, the model of choice, labelled folders.

Choices are drawn from one model that breaks IIA. An item is judged against the mean of its set,
losses loom larger than gains, and a feature weighs more the more it varies in the set:

    g(x, s) = sum over k of beta_k range_k(s) mu(f_k(x) - mean_k(s)),    P(x | s) = softmax of g

with mu(z) = tanh z for gains and c tanh z for losses, c = ``LOSS_AVERSION``. The features f_k are
computed from what is written to the files, so that the files have all that a model could learn.

A folder of generated files is labelled as such first; then each file appears whole or not at all.
"""

import io
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Float64, Int, Integer, Shaped

from setwise import _arguments, _segments
from setwise._errors import InputError
from setwise._files import check_writable, make_folder, whole_file

LOSS_AVERSION = 3.0
FORMULA = (
    "g(x, s) = sum over k of beta_k range_k(s) mu(f_k(x) - mean_k(s)), P(x | s) = softmax of g, "
    f"mu(z) = tanh z for gains and {LOSS_AVERSION:g} tanh z for losses"
)

OnSets = Callable[[int], None]
"""Called with the number of sets written so far."""


@dataclass(frozen=True, eq=False)
class Truth:
    """The model that generated choices were drawn from, and how well it does on them itself.

    The expectations are over the ``one_choice`` sets that have exactly one choice: no model has
    a lower expected loss than ``expected_nll``, and none a higher accuracy than ``expected_top1``.
    """

    description: str
    parameters: Mapping[str, Any]
    one_choice: int
    expected_nll: float
    expected_top1: float


@dataclass(frozen=True, eq=False)
class DrawnSets:
    """Flat rows in sets of these sizes (each at least 1); rows of a set lie side by side.

    >>> sets = DrawnSets(np.array([2, 3]))
    >>> sets.offsets.tolist(), sets.owner.tolist(), sets.spread(np.array([5, 7])).tolist()
    ([0, 2, 5], [0, 0, 1, 1, 1], [5, 5, 7, 7, 7])
    """

    sizes: Int[np.ndarray, " sets"]

    @cached_property
    def offsets(self) -> Int[np.ndarray, " sets_and_one"]:
        """Where the rows of each set begin and end."""
        return _segments.offsets_of(self.sizes)

    @cached_property
    def owner(self) -> Int[np.ndarray, " rows"]:
        """The set of each row."""
        return _segments.owners(self.offsets)

    @property
    def rows(self) -> int:
        """How many rows the sets have together."""
        return int(self.sizes.sum())

    def spread(self, values: Shaped[np.ndarray, " sets"]) -> Shaped[np.ndarray, " rows"]:
        """A value of each set, for each of its rows."""
        return np.repeat(values, self.sizes)


def stream(seed: int, name: str, chunk: int = 0) -> np.random.Generator:
    """The random numbers of one chunk of one file; other chunks and files do not touch them."""
    return np.random.default_rng([seed, zlib.crc32(name.encode()), chunk])


def chunks(total: int, size: int, on_done: OnSets | None = None) -> Iterator[tuple[int, int, int]]:
    """The number, first and end of each chunk of ``total`` things.

    ``on_done`` is called with the end of a chunk after the chunk was used.

    >>> list(chunks(5, 2))
    [(0, 0, 2), (1, 2, 4), (2, 4, 5)]
    """
    for number, first in enumerate(range(0, total, size)):
        end = min(first + size, total)
        yield number, first, end
        if on_done is not None:
            on_done(end)


def drawn_from(
    rng: np.random.Generator, shares: Mapping[int, float], size: int
) -> Int[np.ndarray, " size"]:
    """Numbers with these shares, which need not add up to 1."""
    cumulated = np.cumsum(list(shares.values()))
    at = np.searchsorted(cumulated, rng.random(size) * cumulated[-1], side="right")
    return np.array(list(shares))[at]


def popular(rng: np.random.Generator, size: int, among: int) -> Int[np.ndarray, " size"]:
    """Ranks from 0, of which rank r is drawn with density ~ 1 / (r + q): Zipf with a blunt head.

    q = 10 + among / 10,000 keeps the first rank near the shares of real ads and destinations.
    """
    blunt = 10 + among / 10_000
    ranks = blunt * np.expm1(rng.random(size) * np.log1p(among / blunt))
    return np.minimum(ranks.astype(np.int64), among - 1)


def context_scores(
    features: Mapping[str, Float[np.ndarray, " rows"]],
    weights: Mapping[str, float],
    sets: DrawnSets,
) -> Float64[np.ndarray, " rows"]:
    """g(x, s) of the module's formula for every row; ``weights`` are the betas by feature.

    >>> pair = {"quality": np.array([0.0, 1.0])}
    >>> context_scores(pair, {"quality": 3.0}, DrawnSets(np.array([2]))).round(3).tolist()
    [-4.159, 1.386]
    """
    total = np.zeros(sets.rows)
    for name, beta in weights.items():
        f = features[name]
        extent = _segments.maxima(f, sets.offsets) - _segments.minima(f, sets.offsets)
        felt = np.tanh(_segments.centred(f, sets.offsets))
        total += sets.spread(beta * extent) * np.where(felt < 0, LOSS_AVERSION * felt, felt)
    return total


def pick(
    rng: np.random.Generator,
    scores: Float64[np.ndarray, " rows"],
    sets: DrawnSets,
    counts: Integer[np.ndarray, " sets"],
) -> Bool[np.ndarray, " rows"]:
    """Draw ``counts`` items of each set one after another, without replacement.

    The largest of g + Gumbel noise is a draw from softmax(g), the next one a draw among the rest.
    """
    noisy = scores - np.log(rng.standard_exponential(sets.rows))
    picked = np.zeros(sets.rows, bool)
    for already in range(int(counts.max())):
        best = _segments.maxima(noisy, sets.offsets)
        winner = (noisy == sets.spread(best)) & sets.spread(counts > already)
        picked |= winner
        noisy[winner] = -np.inf
    return picked


@dataclass
class Expectation:
    """The true model's loss and accuracy, added up chunk by chunk."""

    sets: int = 0
    nll: float = 0.0
    top1: float = 0.0

    def add(
        self, scores: Float64[np.ndarray, " rows"], sets: DrawnSets, of: Bool[np.ndarray, " sets"]
    ) -> None:
        """Add the entropy and the largest probability of the sets that ``of`` marks."""
        shifted = scores - sets.spread(_segments.maxima(scores, sets.offsets))
        odds = np.exp(shifted)
        total = _segments.sums(odds, sets.offsets)
        entropy = np.log(total) - _segments.sums(odds * shifted, sets.offsets) / total
        self.sets += int(of.sum())
        self.nll += float(entropy[of].sum())
        self.top1 += float((1 / total)[of].sum())

    def truth(self, description: str, parameters: Mapping[str, Any]) -> Truth:
        """The model, with the means of what was added."""
        sets = max(self.sets, 1)
        return Truth(description, parameters, self.sets, self.nll / sets, self.top1 / sets)


LABEL = "GENERATED.txt"
FIRST_LINE = "These files were generated by setwise. They are not real data."


@dataclass(frozen=True)
class Imitation:
    """Generates files in the format of a public data set, and labels their folder.

    Args:
        format: the name of the format, for the label.
        files: the names of the files.
        description: the model that choices are drawn from, in words.
        weights: its betas.
        write: ``write(folder, sets, seed, expectation, on_sets, **options)`` writes the files, adds
            all sets to the expectation, and returns further parameters of the model.
    """

    format: str
    files: tuple[str, ...]
    description: str
    weights: Mapping[str, float]
    write: Callable[..., Mapping[str, Any]]

    def __call__(
        self, folder: Path, sets: int, seed: int = 0, on_sets: OnSets | None = None, **options: Any
    ) -> Truth:
        """Write the files with so many sets, and return the truth behind the choices."""
        _arguments.whole()("sets", sets)
        _arguments.whole(least=0)("seed", seed)
        title = f"Format: {self.format}. Sets: {sets}. Seed: {seed}."
        _prepare(folder, self.files, title)
        expectation = Expectation()
        found = self.write(folder, int(sets), int(seed), expectation, on_sets, **options)
        parameters = {"weights": self.weights, "loss_aversion": LOSS_AVERSION, **found}
        truth = expectation.truth(self.description, parameters)
        _write_label(folder, [
            title,
            f"The choices were drawn from a known model: {truth.description}",
            f"Over the {truth.one_choice} sets with exactly one choice that model itself has an "
            f"expected loss (nll) of {truth.expected_nll:.6f} and a top-1 of "
            f"{truth.expected_top1:.6f}",
        ])  # fmt: skip
        return truth


def _prepare(folder: Path, names: Sequence[str], title: str) -> None:
    """Make the folder, refuse one with real files, clear earlier generated ones, and label it.

    Real files are those of the same names without setwise's label in their folder.
    """
    make_folder(folder)
    there = [path for name in names for path in _forms(folder, name) if path.exists()]
    if there and not _is_labelled(folder):
        raise InputError(
            f"{there[0]} is there already and {folder} has no {LABEL} of setwise: it may be real "
            "data, which is never overwritten; choose another folder"
        )
    check_writable(folder / LABEL)
    for path in there:
        path.unlink()
    _write_label(folder, [title, "Unfinished: this label is completed when all files are there."])


@contextmanager
def csv_file(
    folder: Path, name: str, zipped: bool = False, missing: str = ""
) -> Iterator[Callable[[Any], None]]:
    """A function that appends Polars frames to the file; zipped, it is ``name.zip``."""
    path = folder / (f"{name}.zip" if zipped else name)
    with whole_file(path) as part, _opened(part, name, zipped) as file:
        is_first = True

        def append(frame: Any) -> None:
            nonlocal is_first
            text = io.BytesIO()
            frame.write_csv(text, include_header=is_first, null_value=missing)
            file.write(text.getbuffer())
            is_first = False

        yield append


@contextmanager
def _opened(path: Path, name: str, zipped: bool) -> Iterator[Any]:
    if not zipped:
        with open(path, "wb") as file:
            yield file
        return
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open(name, "w", force_zip64=True) as member,
    ):
        yield member


def _forms(folder: Path, name: str) -> tuple[Path, Path]:
    return folder / name, folder / f"{name}.zip"


def _is_labelled(folder: Path) -> bool:
    label = folder / LABEL
    return label.is_file() and label.read_bytes().startswith(FIRST_LINE.encode())


def _write_label(folder: Path, lines: Sequence[str]) -> None:
    with whole_file(folder / LABEL) as part:
        part.write_text("\n".join([FIRST_LINE, *lines, ""]), "utf-8")
