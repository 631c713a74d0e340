"""The data doctor: everything that is wrong or suspicious in a table, at once, with remedies."""

from setwise.doctor.examination import examine
from setwise.doctor.report import Examination, Finding, Summary, write_page

__all__ = ["Examination", "Finding", "Summary", "examine", "write_page"]
