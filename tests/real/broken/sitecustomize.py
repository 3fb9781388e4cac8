"""Plants a defect: NVRX_BROKEN names one of `planted/`; this file, found through PYTHONPATH, breaks one module with it.

Loaded at the start of every Python process of a job (or of a run). It only waits for the module that is to be
broken; everything else stays as it is.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import os
import sys


class BreakOnImport(importlib.abc.MetaPathFinder):
    """Finds the one module as everybody else would, and breaks it once it is loaded."""

    def __init__(self, module, break_it):
        self.module, self.break_it = module, break_it

    def find_spec(self, name, path, target=None):
        if name != self.module:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        load = spec.loader.exec_module

        def and_break(module):
            load(module)
            self.break_it(module)

        spec.loader.exec_module = and_break
        return spec


if os.environ.get("NVRX_BROKEN"):
    from planted import DEFECTS

    sys.meta_path.insert(0, BreakOnImport(*DEFECTS[os.environ["NVRX_BROKEN"]]))
