"""Imports torch once, before warnings become errors: with NVRx comes a package that warns at every import."""

import warnings

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", message="The pynvml package is deprecated", category=FutureWarning)
    import torch
    import torch._dynamo

torch.set_num_threads(1)
