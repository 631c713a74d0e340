"""The data doctor: everything that is wrong or suspicious in a table, at once, with remedies."""

from setwise.doctor.examination import Examination, Finding, Summary
from setwise.doctor.examining import examine
from setwise.doctor.page import write_page

__all__ = ["Examination", "Finding", "Summary", "examine", "write_page"]
