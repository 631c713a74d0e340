"""The public raw files of the paper's data: loaders, and generators of files in their format."""

from setwise.paper.raw.drawing import Truth
from setwise.paper.raw.sources import RAW, RawSource, build, imitate, load_raw, raw_files

__all__ = ["RAW", "RawSource", "Truth", "build", "imitate", "load_raw", "raw_files"]
