"""nvrx-chaos: fault injection and chaos testing for PyTorch jobs that rely on NVRx.

Lazy on purpose: ranks import `chaos.agent` through this package and pay for nothing else.
"""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"

_WHERE = {
    "load_scenario": ("chaos.scenario.load", "load_scenario"),
    "run_scenario": ("chaos.run", "run_scenario"),
    "judge_run": ("chaos.conclude", "judge_run"),
}
__all__ = ["__version__", *_WHERE]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'chaos' has no attribute {name!r}")
    module, attribute = _WHERE[name]
    from importlib import import_module

    return getattr(import_module(module), attribute)
