"""The training step of a network in PyTorch, with this project's policy and optimizer.

The step flips, crops and normalises a batch at once, as `robustness.augment` does, which is faster
than a DataLoader with worker processes. It minimises the cross-entropy by SGD with Nesterov's
momentum and weight decay on kernels.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from robustness.core.rows import ArrayRows
from robustness.training.training import Training

PADDING = 4


def torch_steps(
  network: Any, rows: ArrayRows, training: Training, channels_last: bool
) -> Callable[[int], None]:
  """Returns a function that takes a number of training steps in PyTorch and waits for the end.

  Each call draws an order of the rows, which are uint8 in memory, and takes batches in this order.

  Args:
    network: the PyTorch network to train.
    rows: the images and labels.
    training: the training; its settings and normalisation are used.
    channels_last: whether images are stored with channels last.
  """
  settings = training.settings
  layout = torch.channels_last if channels_last else torch.contiguous_format
  network = network.train().to(memory_format=layout)
  images = torch.from_numpy(rows.images.transpose(0, 3, 1, 2).copy())
  labels = torch.from_numpy(rows.labels.astype(np.int64))
  mean, std = (
    torch.tensor(value)[:, None, None] for value in (training.inputs.mean, training.inputs.std)
  )
  kernels = [p for p in network.parameters() if p.ndim > 1]
  vectors = [p for p in network.parameters() if p.ndim == 1]
  optimizer = torch.optim.SGD(
    [
      {'params': kernels, 'weight_decay': settings.weight_decay},
      {'params': vectors, 'weight_decay': 0.0},
    ],
    lr=settings.learning_rate,
    momentum=settings.momentum,
    nesterov=settings.nesterov,
  )

  def run(steps: int) -> None:
    order = torch.randperm(len(images))
    for step in range(steps):
      positions = (step * settings.batch_size + torch.arange(settings.batch_size)) % len(order)
      drawn = order[positions]
      inputs = (augmented(images[drawn].float() / 255) - mean) / std
      logits = network(inputs.contiguous(memory_format=layout))
      loss = functional.cross_entropy(logits, labels[drawn])
      optimizer.zero_grad()
      loss.backward()
      optimizer.step()
    loss.item()

  return run


def augmented(images: torch.Tensor) -> torch.Tensor:
  """Returns images [B, C, H, W], each flipped with probability ½, padded and cropped at random."""
  count, _, height, width = images.shape
  flip = torch.rand(count) < 0.5
  images = torch.where(flip[:, None, None, None], images.flip(3), images)
  padded = functional.pad(images, (PADDING,) * 4)
  tops, lefts = torch.randint(0, 2 * PADDING + 1, (2, count, 1))
  rows, columns = tops + torch.arange(height), lefts + torch.arange(width)
  # rows [B, height] and columns [B, width] are places in the padded images
  index = torch.arange(count)
  cut = padded[index[:, None, None], :, rows[:, :, None], columns[:, None, :]]
  return cut.permute(0, 3, 1, 2)
