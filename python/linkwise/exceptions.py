"""TODO."""

from __future__ import annotations


class NoGpuWarning(UserWarning):
    """There is no GPU that CUDA can use: the CPU executes and the times are simulated."""


class NominalMachineWarning(UserWarning):
    """This machine was never probed: plans are made from what its links could carry, not from what they do."""


class FallbackWarning(UserWarning):
    """Something was done in another way than was asked for, or in a slower one than could be."""
