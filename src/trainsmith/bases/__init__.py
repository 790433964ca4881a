"""Base models: what a job may train, where the weights come from, and the local cache. Free of torch."""

from trainsmith.bases.architecture import Architecture, read_architecture
from trainsmith.bases.base_model import BaseModel, Hf, LocalPath, PypiGguf, Source
from trainsmith.bases.fetching import NEEDED_BYTES, cached, fetch
from trainsmith.bases.registry import get, names

__all__ = [
    "NEEDED_BYTES",
    "Architecture",
    "BaseModel",
    "Hf",
    "LocalPath",
    "PypiGguf",
    "Source",
    "cached",
    "fetch",
    "get",
    "names",
    "read_architecture",
]
