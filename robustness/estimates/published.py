"""Published errors that serve as baselines, as numbers with their source."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

ALEXNET_ERRORS = {
  'gaussian_noise': 0.886428,
  'shot_noise': 0.894468,
  'impulse_noise': 0.922640,
  'defocus_blur': 0.819880,
  'glass_blur': 0.826268,
  'motion_blur': 0.785948,
  'zoom_blur': 0.798360,
  'snow': 0.866816,
  'frost': 0.826572,
  'fog': 0.819324,
  'brightness': 0.564592,
  'contrast': 0.853204,
  'elastic_transform': 0.646056,
  'pixelate': 0.717840,
  'jpeg_compression': 0.606500,
}
"""Top-1 error of AlexNet on ImageNet-C, mean over severities, the denominators of mCE.

Source: Hendrycks and Dietterich, Benchmarking neural network robustness to common corruptions and
perturbations (2019), and the values printed with their released code.
"""

ALEXNET_CLEAN_ERROR = 0.43478
"""Top-1 error of the same AlexNet, torchvision's, on the ImageNet validation set."""

CIFAR10_STANDARD_ERRORS = {
  'gaussian_noise': 0.52974,
  'shot_noise': 0.41220,
  'impulse_noise': 0.44700,
  'defocus_blur': 0.18512,
  'glass_blur': 0.49000,
  'motion_blur': 0.22276,
  'zoom_blur': 0.24398,
  'snow': 0.18114,
  'frost': 0.24956,
  'fog': 0.11212,
  'brightness': 0.06716,
  'contrast': 0.17390,
  'elastic_transform': 0.16220,
  'pixelate': 0.28018,
  'jpeg_compression': 0.22436,
}
"""Top-1 error on CIFAR-10-C of a plainly trained WideResNet-28-10, mean over severities.

Source: RobustBench (Croce et al. 2021), the model "Standard" in the table of accuracies by
corruption and severity on all 10,000 images that its repository holds.
"""


@dataclasses.dataclass(frozen=True)
class PublishedErrors:
  """A classifier whose errors under the official 15 corruptions were published.

  Attributes:
    of: which classifier on which set.
    corrupted: mean error over severities, by corruption.
    clean: error on clean images; NaN where it was not published with the others, which leaves out
      relative mCE.
    side: of the set's images, pixels.
    set_name: what papers call the set.
  """

  of: str
  corrupted: Mapping[str, float]
  clean: float
  side: int
  set_name: str


BASELINES = {
  'alexnet': PublishedErrors(
    'AlexNet on ImageNet-C', ALEXNET_ERRORS, ALEXNET_CLEAN_ERROR, 224, 'ImageNet-C'
  ),
  'cifar10_standard': PublishedErrors(
    "RobustBench's Standard WideResNet-28-10 on CIFAR-10-C",
    CIFAR10_STANDARD_ERRORS,
    math.nan,
    32,
    'CIFAR-10-C',
  ),
}
"""By the name in `config.study.baseline`."""
