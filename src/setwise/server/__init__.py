"""The HTTP service: a model file answers requests; see docs/serving.md.

It needs the extra ``serve``; scoring is NumPy's (:mod:`setwise.scoring`), JAX is not imported.
"""

from setwise.server.app import application
from setwise.server.running import run
from setwise.server.service import Service
from setwise.server.settings import Limits, Settings

__all__ = ["Limits", "Service", "Settings", "application", "run"]
