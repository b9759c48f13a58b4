"""Imports PyTorch's model libraries for parity tests, or skips a test if its library is missing."""

from __future__ import annotations

import functools
import importlib
import sys
import types

import pytest

OPERATORS = ('nms', 'qnms')


@functools.cache
def peer(name: str) -> types.ModuleType:
  """Returns `torch`, `torchvision`, `timm` or `open_clip`, or skips the test."""
  torch = pytest.importorskip('torch', reason='parity needs torch')
  if name != 'torch':
    _declare_operators(torch)
  try:
    return importlib.import_module(name)
  except (ImportError, RuntimeError) as error:
    pytest.skip(f"parity needs {name} (pip install '.[parity]'): {error}")


@functools.cache
def _declare_operators(torch: types.ModuleType) -> object:
  """Lets a torchvision that was built for CUDA be imported next to a torch that was not.

  Its compiled operators do not load then, and its Python code refers to two of them by name.
  """
  try:
    return importlib.import_module('torchvision')
  except (ImportError, RuntimeError):
    for name in [n for n in list(sys.modules) if n.startswith('torchvision')]:
      del sys.modules[name]
  library = torch.library.Library('torchvision', 'DEF')
  for name in OPERATORS:
    library.define(f'{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor')
  return library
