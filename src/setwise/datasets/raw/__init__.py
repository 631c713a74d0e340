"""The public raw files of the paper's data: loaders, and generators of files in their format."""

from setwise.datasets.raw.drawing import Truth
from setwise.datasets.raw.sources import RAW, RawSource, build, imitate, load_raw, raw_files

__all__ = ["RAW", "RawSource", "Truth", "build", "imitate", "load_raw", "raw_files"]
