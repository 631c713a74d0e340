"""The paper as software: its data, its protocol, its tables and figures, and its theory.

``raw`` reads and imitates the files of Expedia, Outbrain and Amadeus; ``reproduction`` runs the
protocol; ``published`` has the printed results; ``theory`` has what the paper proves.
"""

from setwise.paper.published_results import main_table, published
from setwise.paper.raw import RAW, Truth, build, imitate, load_raw

__all__ = ["RAW", "Truth", "build", "imitate", "load_raw", "main_table", "published"]
