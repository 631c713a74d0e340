"""Economic sanity of a fitted model: does it react to prices, copies and new items as it should?"""

from setwise.auditing.findings import (
    CHECKS,
    Audit,
    AuditExample,
    AuditFinding,
    AuditLimits,
    Verdict,
)
from setwise.auditing.run import audit

__all__ = ["CHECKS", "Audit", "AuditExample", "AuditFinding", "AuditLimits", "Verdict", "audit"]
