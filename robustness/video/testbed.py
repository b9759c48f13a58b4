"""Published accuracies of the testbed of Shankar et al., Tables 5 and 6, and the line through them.

Values are the paper's: percent with one decimal there, fractions here. Table 5 has 45 models, Table
6 has 60. docs/contradictions.md lists what in them cannot all be true.

Reference: Shankar et al., Do Image Classifiers Generalize Across Time?, 2021.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from robustness.core.errors import InputError, nearest
from robustness.estimates.means import STUDENT, Estimate

VID, YTBB = 'imagenet_vid_robust', 'ytbb_robust'
ANCHORS = {VID: 1109, YTBB: 2030}


class Entry(NamedTuple):
  """A model's published accuracies, fractions, with 95 % Clopper–Pearson intervals.

  Attributes:
    name: of the model, as printed, without `_imagenet_pretrained`.
    anchor, anchor_low, anchor_high: accuracy on anchors.
    worst, worst_low, worst_high: pm-10.
    drop: as printed.
  """

  name: str
  anchor: float
  anchor_low: float
  anchor_high: float
  worst: float
  worst_low: float
  worst_high: float
  drop: float


@functools.cache
def entries(name: str) -> tuple[Entry, ...]:
  """Returns the models of 'imagenet_vid_robust' (Table 5) or 'ytbb_robust' (Table 6).

  Raises:
    InputError: another name.
  """
  if name not in _TABLES:
    raise InputError(f'no published testbed {name!r}; {nearest(name, _TABLES)}.')
  return parsed(_TABLES[name])


KINDS = ('fine-tuned', 'detection', 'robust training', 'noise augmentation', 'ILSVRC')


def kind(entry: Entry) -> str:
  """Returns how a model was trained, one of `KINDS`."""
  for word, training in (
    ('_finetuned', KINDS[0]),
    ('_detection', KINDS[1]),
    ('_robust', KINDS[2]),
    ('_augment', KINDS[3]),
  ):
    if word in entry.name:
      return training
  return KINDS[4]


def parsed(table: str) -> tuple[Entry, ...]:
  """Returns the entries of a table: a name and percent in each line, as printed."""
  lines = (line.split() for line in table.strip().splitlines())
  return tuple(Entry(name, *(round(float(v) / 100, 4) for v in values)) for name, *values in lines)


class LinearFit(NamedTuple):
  """The line y = slope·x + intercept through M models, with its band.

  Attributes:
    slope, intercept: with intervals; n is M.
    y, low, high: the line and its pointwise band on a grid, [G].
  """

  slope: Estimate
  intercept: Estimate
  y: np.ndarray
  low: np.ndarray
  high: np.ndarray


def linear_fit(x: ArrayLike, y: ArrayLike, grid: ArrayLike, confidence: float = 0.95) -> LinearFit:
  """Fits perturbed accuracy against original accuracy by least squares (the paper's figure 3).

  Intervals are Student's of a regression, with M − 2 degrees of freedom: the models are taken as
  drawn from many, with independent deviations from the line. Resampling few models shows too
  little: of three most samples hold one twice, and two points have no deviation.

  Args:
    x, y: accuracies of M ≥ 3 models, fractions; x not all equal.
    grid: [G], where the band is computed.
    confidence: of the intervals, in (0, 1).

  Raises:
    InputError: fewer than three models, or no two different x.
  """
  first, second, at = (np.asarray(v, float) for v in (x, y, grid))
  if first.shape != second.shape or first.ndim != 1 or len(first) < 3 or np.ptp(first) == 0:
    raise InputError(
      f'a line needs three models or more of different accuracy; got x of shape '
      f'{first.shape} and y of shape {second.shape}.'
    )
  fit, count = stats.linregress(first, second), len(first)
  reach = float(stats.t.ppf((1 + confidence) / 2, count - 2)) * fit.stderr

  def half(point: np.ndarray) -> np.ndarray:
    return reach * np.sqrt(first.var() + (point - first.mean()) ** 2)

  def estimate(value: float, width: float) -> Estimate:
    return Estimate(value, value - width, value + width, count, count, STUDENT)

  line = fit.intercept + fit.slope * at
  intercept = estimate(float(fit.intercept), float(half(np.array(0.0))))
  return LinearFit(
    estimate(float(fit.slope), float(reach)), intercept, line, line - half(at), line + half(at)
  )


_TABLES = {
  VID: """
resnet152_finetuned 84.8 82.5 86.8 70.2 67.4 72.8 14.6
resnet50_finetuned 80.8 78.3 83.1 65.7 62.9 68.5 15.1
vgg16bn_finetuned 78.0 75.4 80.4 61.0 58.1 63.9 17.0
nasnetalarge 77.6 75.1 80.1 62.1 59.2 65.0 15.5
resnet50_detection 77.6 75.1 80.1 65.0 62.1 67.8 12.6
inceptionresnetv2 75.7 73.1 78.2 58.7 55.7 61.6 17.0
dpn107 75.6 72.9 78.1 59.1 56.1 62.0 16.5
inceptionv4 75.3 72.6 77.8 59.0 56.0 61.9 16.3
dpn92 74.4 71.7 76.9 56.8 53.8 59.7 17.6
dpn131 74.0 71.3 76.6 59.9 56.9 62.8 14.1
dpn68b 73.7 71.0 76.2 54.0 51.0 57.0 19.7
resnext101_32x4d 73.3 70.6 75.9 57.2 54.2 60.1 16.1
resnext101_64x4d 72.9 70.1 75.5 56.6 53.7 59.6 16.3
resnet152 72.8 70.0 75.4 57.0 54.0 59.9 15.8
resnet101 71.5 68.7 74.1 53.7 50.8 56.7 17.8
fbresnet152 71.5 68.7 74.1 54.5 51.5 57.4 17.0
densenet161 71.4 68.7 74.1 55.1 52.1 58.1 16.3
densenet169 70.2 67.5 72.9 53.1 50.1 56.1 17.1
densenet201 70.2 67.5 72.9 53.4 50.4 56.4 16.8
dpn68 69.4 66.6 72.1 53.3 50.3 56.3 16.1
bninception 69.0 66.2 71.7 49.0 46.0 51.9 20.0
densenet121 69.0 66.2 71.7 50.9 47.9 53.8 18.1
nasnetamobile 68.8 66.0 71.5 48.4 45.4 51.4 20.4
resnet50_augment_jpeg_compression 68.8 66.0 71.5 53.2 50.2 56.2 15.6
resnet34 68.0 65.2 70.7 48.0 45.0 51.0 20.0
resnet50_augment_impulse_noise 67.7 64.9 70.5 50.2 47.2 53.2 17.5
resnet50_augment_gaussian_blur 67.7 64.9 70.5 52.5 49.5 55.5 15.2
resnet50 67.5 64.7 70.3 52.5 49.5 55.5 15.0
resnet50_augment_gaussian_noise 67.4 64.5 70.1 50.6 47.6 53.6 16.8
resnet50_augment_shot_noise 66.5 63.6 69.2 51.1 48.1 54.1 15.4
vgg16_bn 66.4 63.5 69.1 47.4 44.5 50.4 19.0
resnet50_augment_defocus_blur 66.3 63.4 69.1 47.6 44.6 50.6 18.7
vgg19_bn 65.6 62.7 68.4 46.6 43.6 49.6 19.0
vgg19 63.2 60.3 66.1 45.4 42.4 48.3 17.8
resnet18 61.9 59.0 64.8 41.5 38.6 44.4 20.4
vgg13_bn 61.9 59.0 64.8 43.3 40.3 46.3 18.6
vgg16 61.4 58.5 64.3 43.1 40.2 46.1 18.3
vgg11_bn 60.9 57.9 63.8 43.2 40.3 46.2 17.7
vgg13 59.6 56.6 62.5 41.1 38.2 44.1 18.5
vgg11 57.3 54.4 60.3 41.3 38.4 44.3 16.0
alexnet_finetuned 57.3 54.3 60.2 43.6 40.7 46.6 13.7
ResNeXtDenoiseAll-101_robust_pgd 54.3 51.3 57.2 40.8 37.8 43.7 13.5
squeezenet1_1 49.8 46.8 52.8 31.7 28.9 34.5 18.1
alexnet 49.4 46.4 52.4 32.0 29.3 34.8 17.4
resnet50_augment_contrast_change 38.3 35.5 41.3 23.3 20.8 25.9 15.0
""",
  YTBB: """
resnet152_finetuned 92.9 91.2 94.3 84.7 82.4 86.8 8.2
resnet50_finetuned 91.4 89.6 93.0 82.0 79.6 84.2 9.4
inceptionresnetv2_finetuned 91.3 89.5 92.9 79.0 76.4 81.3 12.3
vgg19_finetuned 90.5 88.6 92.2 79.1 76.5 81.4 11.4
vgg16_finetuned 89.1 87.1 90.8 78.0 75.4 80.4 11.1
inceptionv4_finetuned 88.5 86.5 90.3 76.3 73.6 78.7 12.2
resnet18_finetuned 88.0 85.9 89.8 76.2 73.6 78.7 11.8
alexnet_finetuned 80.6 78.2 82.9 64.4 61.5 67.3 16.2
pnasnet5large 65.2 62.3 68.0 51.0 48.0 54.0 14.2
nasnetalarge 64.9 62.0 67.7 51.4 48.4 54.4 13.5
inceptionresnetv2 64.5 61.6 67.4 50.4 47.5 53.4 14.1
dpn98 64.1 61.2 66.9 49.0 46.0 52.0 15.1
dpn107 64.1 61.2 66.9 50.1 47.2 53.1 14.0
dpn131 64.0 61.1 66.8 49.9 46.9 52.9 14.1
inceptionv4 63.6 60.7 66.4 48.8 45.8 51.8 14.8
xception 63.2 60.2 66.0 47.6 44.6 50.6 15.6
dpn92 62.3 59.3 65.1 47.7 44.8 50.7 14.6
resnet50_augment_jpeg_compressioon 62.3 59.4 65.2 45.7 42.8 48.7 16.6
polynet 61.4 58.4 64.3 47.3 44.4 50.3 14.1
nasnetamobile 61.4 58.4 64.3 43.0 40.1 46.0 18.4
resnet50_augment_shot_noise 61.3 58.3 64.2 46.4 43.4 49.3 14.9
dpn68 61.2 58.3 64.1 44.2 41.2 47.2 17.0
fbresnet152 61.1 58.1 64.0 45.9 42.9 48.8 15.2
resnet152 60.8 57.8 63.7 46.5 43.5 49.5 14.3
resnet101 60.8 57.8 63.7 45.2 42.2 48.2 15.6
senet154 60.7 57.7 63.6 47.2 44.3 50.2 13.5
resnet50_augment_impulse_noise 60.6 57.7 63.5 45.5 42.6 48.5 15.1
se_resnet101 60.5 57.6 63.4 45.6 42.6 48.6 14.9
bninception 60.4 57.4 63.3 41.8 38.9 44.7 18.6
densenet161 60.2 57.3 63.1 46.4 43.4 49.4 13.8
resnet50_augment_gaussian_noise 60.2 57.3 63.1 45.7 42.8 48.7 14.5
se_resnext50_32x4d 59.9 56.9 62.8 45.7 42.7 48.6 14.2
dpn68b 59.7 56.7 62.6 45.9 42.9 48.8 13.8
inceptionv3 59.6 56.6 62.5 43.8 40.8 46.8 15.8
densenet121 59.5 56.5 62.4 43.1 40.1 46.0 16.4
se_resnext101_32x4d 59.2 56.3 62.1 45.2 42.3 48.2 14.0
densenet201 59.2 56.2 62.1 44.8 41.8 47.8 14.4
densenet169 59.2 56.2 62.1 44.6 41.7 47.6 14.6
resnet50_augment_brightness_change 58.9 56.0 61.8 42.6 39.6 45.5 16.3
se_resnet50 58.8 55.9 61.7 44.1 41.1 47.1 14.7
se_resnet152 58.8 55.9 61.7 44.8 41.9 47.8 14.0
cafferesnet101 58.2 55.2 61.1 44.3 41.3 47.3 13.9
resnet50_augment_regular 58.0 55.1 61.0 42.9 39.9 45.8 15.1
resnet34 57.9 55.0 60.9 42.8 39.8 45.7 15.1
vgg19 57.5 54.6 60.5 40.1 37.2 43.1 17.4
resnet50_augment_gaussian_blur 57.5 54.5 60.4 41.8 38.9 44.7 15.7
vgg16_bn 57.2 54.2 60.1 39.6 36.7 42.6 17.6
resnet50 57.0 54.1 60.0 43.8 40.9 46.8 13.2
vgg19_bn 56.8 53.9 59.8 40.6 37.7 43.5 16.2
vgg16 55.4 52.4 58.4 40.1 37.2 43.1 15.3
vgg13_bn 54.8 51.8 57.7 38.6 35.7 41.6 16.2
vgg11_bn 54.8 51.8 57.7 38.8 35.9 41.8 16.0
vgg11 54.7 51.7 57.6 38.4 35.5 41.3 16.3
resnet18 54.4 51.4 57.4 38.1 35.2 41.0 16.3
vgg13 54.2 51.3 57.2 37.7 34.9 40.7 16.5
ResNeXtDenoiseAll-101_robust_pgd 53.6 50.7 56.6 43.2 40.2 46.1 10.4
squeezenet1_0 51.1 48.1 54.1 33.1 30.3 36.0 18.0
squeezenet1_1 48.6 45.6 51.6 31.3 28.6 34.2 17.3
resnet50_augment_defocus_blur 48.4 45.4 51.4 29.1 26.4 31.8 19.3
alexnet 45.3 42.4 48.3 30.5 27.8 33.3 14.8
""",
}
