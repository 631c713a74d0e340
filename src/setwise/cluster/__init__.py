"""Beyond one machine: the same work on a Ray cluster. Ray is imported only where it is used."""

from setwise.cluster.ray_executor import RayCrew, crew_on, on_ray

__all__ = ["RayCrew", "crew_on", "on_ray"]
