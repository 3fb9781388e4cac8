"""Put on PYTHONPATH by bench/overhead.py: times every call into the agent, and writes the sum of each step at exit.

Nested calls are counted once, by the outermost. Only in processes that the benchmark asked to be timed.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import time
from collections.abc import Callable
from importlib.abc import Loader, MetaPathFinder
from typing import Any

TIMED = ("enter", "point", "step_returned", "step_done", "emit")
_sums: list[int] = []  # one for each step
_now = [0, 0]  # time of the step so far; whether a timed call is running


def _timed(original: Callable[..., Any], closes_step: bool) -> Callable[..., Any]:
    clock, now, sums = time.perf_counter_ns, _now, _sums

    def call(*args: Any) -> Any:
        if now[1]:
            return original(*args)
        now[1] = 1
        clock()  # fetches the clock's own code into the caches: that is not the agent's time
        began = clock()
        result = original(*args)
        now[0] += clock() - began
        now[1] = 0
        if closes_step:
            sums.append(now[0])
            now[0] = 0
        return result

    return call


def _write() -> None:
    if _sums:
        path = f"{os.environ['NVRX_BENCH_AGENT']}.{os.getpid()}"
        with open(path, "w") as out:
            json.dump(_sums, out)


class _Patch(MetaPathFinder):
    """Patches the agent's class right after its module was loaded."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != "chaos.agent.core":
            return None
        sys.meta_path.remove(self)
        from importlib.util import find_spec

        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            loader: Loader = spec.loader
            execute = loader.exec_module

            def exec_module(module: Any) -> None:
                execute(module)
                for method in TIMED:
                    setattr(module.Agent, method, _timed(getattr(module.Agent, method), method == "step_done"))

            loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


if "NVRX_BENCH_AGENT" in os.environ:
    sys.meta_path.insert(0, _Patch())
    atexit.register(_write)
