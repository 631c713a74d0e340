"""How much memory there is."""

import re
from pathlib import Path


def available_bytes() -> int | None:
    """What can be used before the system runs out; None where it does not say (not on Linux)."""
    told = Path("/proc/meminfo")
    if not told.exists():
        return None
    found = re.search(r"^MemAvailable:\s+(\d+) kB$", told.read_text(), re.MULTILINE)
    return None if found is None else 1024 * int(found[1])
