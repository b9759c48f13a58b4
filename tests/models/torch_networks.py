"""Wide ResNets in PyTorch, written from the paper, with the names of published state dicts."""

from __future__ import annotations

import collections

import torch
from torch import nn
from torch.nn import functional


class WideBlock(nn.Module):
  def __init__(self, inputs: int, outputs: int, stride: int) -> None:
    super().__init__()
    self.bn1 = nn.BatchNorm2d(inputs)
    self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
    self.bn2 = nn.BatchNorm2d(outputs)
    self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
    if inputs != outputs:
      self.convShortcut = nn.Conv2d(inputs, outputs, 1, stride, 0, bias=False)

  def forward(self, x: torch.Tensor) -> torch.Tensor:
    active = functional.relu(self.bn1(x))
    y = self.conv2(functional.relu(self.bn2(self.conv1(active))))
    return y + (self.convShortcut(active) if hasattr(self, 'convShortcut') else x)


def wide_group(inputs: int, outputs: int, blocks: int, stride: int) -> nn.Sequential:
  sizes = [(inputs, outputs, stride), *[(outputs, outputs, 1)] * (blocks - 1)]
  layer = nn.Sequential(*(WideBlock(*size) for size in sizes))
  return nn.Sequential(collections.OrderedDict(layer=layer))


class WideResNet(nn.Module):
  def __init__(self, depth: int, width: int, num_classes: int = 10) -> None:
    super().__init__()
    num_blocks, features = (depth - 4) // 6, 16 * width
    self.conv1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
    self.block1 = wide_group(16, features, num_blocks, 1)
    self.block2 = wide_group(features, 2 * features, num_blocks, 2)
    self.block3 = wide_group(2 * features, 4 * features, num_blocks, 2)
    self.bn1 = nn.BatchNorm2d(4 * features)
    self.fc = nn.Linear(4 * features, num_classes)

  def forward(self, x: torch.Tensor) -> torch.Tensor:
    x = self.block3(self.block2(self.block1(self.conv1(x))))
    return self.fc(functional.relu(self.bn1(x)).mean((2, 3)))
