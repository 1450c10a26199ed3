"""Lets py-spy look into a sample program under Yama. May ask the kernel for that, and nothing else."""

from __future__ import annotations

import ctypes

_PR_SET_PTRACER = 0x59616D61
_PR_SET_PTRACER_ANY = ctypes.c_ulong(-1)


def allow_any_tracer() -> None:
    """Not inherited: each process of a tree calls it. A kernel without Yama refuses, and then nothing is needed."""
    ctypes.CDLL(None).prctl(_PR_SET_PTRACER, _PR_SET_PTRACER_ANY, 0, 0, 0)
