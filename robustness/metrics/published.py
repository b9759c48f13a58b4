"""Published errors that serve as baselines, as numbers with their source."""

from __future__ import annotations

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
