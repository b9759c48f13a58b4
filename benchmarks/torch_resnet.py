"""ResNet-n for 32 × 32 images in PyTorch, with the names of published state dicts.

Reference: He et al., Deep Residual Learning for Image Recognition, section 4.2 (option A).
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
  """Two 3×3 convolutions with batch norm; the shortcut subsamples and pads channels with zeros."""

  def __init__(self, inputs: int, outputs: int) -> None:
    super().__init__()
    self.stride = 1 if inputs == outputs else 2
    self.pad = (outputs - inputs) // 2
    self.conv1 = nn.Conv2d(inputs, outputs, 3, self.stride, 1, bias=False)
    self.bn1 = nn.BatchNorm2d(outputs)
    self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
    self.bn2 = nn.BatchNorm2d(outputs)

  def forward(self, x: torch.Tensor) -> torch.Tensor:
    """Maps [B, C, H, W] to [B, outputs, H / stride, W / stride]."""
    y = self.bn2(self.conv2(functional.relu(self.bn1(self.conv1(x)))))
    if self.stride > 1:
      x = functional.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.pad, self.pad))
    return functional.relu(x + y)


class ResNet(nn.Module):
  """Three stages of n blocks, 16, 32 and 64 channels wide; depth 6n + 2."""

  def __init__(self, depth: int = 20, num_classes: int = 10) -> None:
    super().__init__()
    n = (depth - 2) // 6
    self.conv1, self.bn1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16)
    self.layer1 = nn.Sequential(*(Block(16, 16) for _ in range(n)))
    self.layer2 = nn.Sequential(Block(16, 32), *(Block(32, 32) for _ in range(n - 1)))
    self.layer3 = nn.Sequential(Block(32, 64), *(Block(64, 64) for _ in range(n - 1)))
    self.linear = nn.Linear(64, num_classes)

  def forward(self, x: torch.Tensor) -> torch.Tensor:
    """Returns logits [B, num_classes] of normalised images [B, 3, H, W]."""
    x = self.layer1(functional.relu(self.bn1(self.conv1(x))))
    return self.linear(self.layer3(self.layer2(x)).mean((2, 3)))
