"""The same work on a Ray cluster. Ray is imported only where it is used."""

from setwise.cluster.ray_executor import RayExecutor, executor_on, on_ray

__all__ = ["RayExecutor", "executor_on", "on_ray"]
