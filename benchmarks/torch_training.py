"""The training step of a network in PyTorch, with this project's policy and optimizer.

Flip and crop as `robustness.augment` has them, on a whole batch at once (faster than image by image
in a DataLoader, whose workers need cores of their own); normalisation, cross-entropy, SGD with
Nesterov's momentum, weight decay on kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from robustness.training.settings import TrainingSettings

PADDING = 4


class TorchTraining:
  """Steps on rows that are in memory, in the order of an epoch."""

  def __init__(
    self,
    network: Any,
    images: np.ndarray,
    labels: np.ndarray,
    mean: Sequence[float],
    std: Sequence[float],
    settings: TrainingSettings,
    channels_last: bool,
  ):
    """Args: images: uint8 [N, H, W, C]; labels: integers [N]; the rest as in a `Training`."""
    self._format = torch.channels_last if channels_last else torch.contiguous_format
    self.network = network.train().to(memory_format=self._format)
    self._images = torch.from_numpy(images.transpose(0, 3, 1, 2).copy())
    self._labels = torch.from_numpy(labels.astype(np.int64))
    self._mean, self._std = (torch.tensor(value)[None, :, None, None] for value in (mean, std))
    kernels = [p for p in network.parameters() if p.ndim > 1]
    others = [p for p in network.parameters() if p.ndim == 1]
    self._optimizer = torch.optim.SGD(
      [
        {'params': kernels, 'weight_decay': settings.weight_decay},
        {'params': others, 'weight_decay': 0.0},
      ],
      lr=settings.learning_rate,
      momentum=settings.momentum,
      nesterov=settings.nesterov,
    )
    self._batch_size = settings.batch_size

  def run(self, steps: int) -> None:
    """Takes some steps, the loss fetched at the end."""
    order = torch.randperm(len(self._images))
    for step in range(steps):
      positions = (step * self._batch_size + torch.arange(self._batch_size)) % len(order)
      rows = order[positions]
      shown = (augmented(self._images[rows].float() / 255) - self._mean) / self._std
      logits = self.network(shown.contiguous(memory_format=self._format))
      loss = functional.cross_entropy(logits, self._labels[rows])
      self._optimizer.zero_grad()
      loss.backward()
      self._optimizer.step()
    loss.item()


def augmented(images: torch.Tensor) -> torch.Tensor:
  """Returns images [B, C, H, W] flipped by chance and cut out of their padding at random."""
  count, _, height, width = images.shape
  flip = torch.rand(count) < 0.5
  images = torch.where(flip[:, None, None, None], images.flip(3), images)
  padded = functional.pad(images, (PADDING,) * 4)
  top, left = torch.randint(0, 2 * PADDING + 1, (2, count, 1))
  rows, columns = top + torch.arange(height), left + torch.arange(width)
  index = torch.arange(count)
  cut = padded[index[:, None, None], :, rows[:, :, None], columns[:, None, :]]
  return cut.permute(0, 3, 1, 2)
