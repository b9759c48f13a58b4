"""Networks for 32 × 32 images in PyTorch: ResNet-n, with the names of published state dicts, and
airbench94.

References: He et al., Deep Residual Learning for Image Recognition, section 4.2 (option A); Jordan,
94% on CIFAR-10 in 3.29 Seconds on a Single GPU, section 3.
"""

from collections.abc import Sequence

import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
  """Two 3×3 convolutions with batch norm; the shortcut subsamples and pads channels with zeros."""

  def __init__(self, inputs: int, outputs: int) -> None:
    super().__init__()
    self.stride = 1 if inputs == outputs else 2
    # channels of zeros that the shortcut gets on either side
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


def airbench(widths: Sequence[int] = (64, 256, 256), num_classes: int = 10) -> nn.Sequential:
  """Returns airbench94 without the factor 1/9 of its logits: layer 0 whitens and is not trained."""
  whitening = nn.Conv2d(3, 24, 2)  # two filters for each of the 2 · 2 · 3 values of a patch
  whitening.weight.requires_grad = False
  layers: list[nn.Module] = [whitening, nn.GELU()]
  for inputs, outputs in zip((24, *widths[:-1]), widths, strict=True):
    layers += [
      nn.Conv2d(inputs, outputs, 3, padding=1, bias=False),
      nn.MaxPool2d(2),
      nn.BatchNorm2d(outputs, eps=1e-12, momentum=0.4),
      nn.GELU(),
      nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
      nn.BatchNorm2d(outputs, eps=1e-12, momentum=0.4),
      nn.GELU(),
    ]
  head = nn.Linear(widths[-1], num_classes, bias=False)
  return nn.Sequential(*layers, nn.MaxPool2d(3), nn.Flatten(), head)
