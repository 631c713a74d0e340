"""The data doctor: everything that is wrong or suspicious in a table, at once, with remedies."""

from setwise.doctor.all_checks import examine
from setwise.doctor.report import Examination, Finding, TableSummary, write_page
from setwise.doctor.shapes import suggestion

__all__ = ["Examination", "Finding", "TableSummary", "examine", "suggestion", "write_page"]
