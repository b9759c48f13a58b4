"""Accuracies that Yin et al. (2019) printed, as numbers: their tables 1, 3 and 4.

Rows are corruptions, columns the labels of `configs/fourier_table.py`; accuracies are fractions and
means over the five severities.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True)
class PublishedTable:
  """A table of accuracies by classifier.

  Attributes:
    name: in the paper.
    clean: accuracy on clean images.
    corrupted: by classifier, by corruption.
    average: as printed.
    mce: as printed; empty where the table has none.
  """

  name: str
  clean: Mapping[str, float]
  corrupted: Mapping[str, Mapping[str, float]]
  average: Mapping[str, float]
  mce: Mapping[str, float]


TABLE_3 = PublishedTable(
  'table 3',
  clean={
    'natural': 0.9626,
    'gaussian': 0.9369,
    'adversarial': 0.8725,
    'low_pass': 0.9235,
    'high_pass': 0.9378,
    'auto_augment': 0.9693,
  },
  corrupted={
    'natural': {
      'brightness': 0.9493,
      'contrast': 0.8225,
      'defocus_blur': 0.8456,
      'elastic_transform': 0.86,
      'fog': 0.8997,
      'gaussian_blur': 0.7273,
      'glass_blur': 0.5677,
      'impulse_noise': 0.5428,
      'jpeg_compression': 0.8009,
      'motion_blur': 0.8079,
      'pixelate': 0.7317,
      'shot_noise': 0.6773,
      'snow': 0.8505,
      'speckle_noise': 0.7041,
      'zoom_blur': 0.8046,
    },
    'gaussian': {
      'brightness': 0.9244,
      'contrast': 0.5703,
      'defocus_blur': 0.8371,
      'elastic_transform': 0.8429,
      'fog': 0.7194,
      'gaussian_blur': 0.7907,
      'glass_blur': 0.8046,
      'impulse_noise': 0.8308,
      'jpeg_compression': 0.9078,
      'motion_blur': 0.7715,
      'pixelate': 0.8983,
      'shot_noise': 0.9233,
      'snow': 0.8835,
      'speckle_noise': 0.9171,
      'zoom_blur': 0.8163,
    },
    'adversarial': {
      'brightness': 0.8705,
      'contrast': 0.77,
      'defocus_blur': 0.8355,
      'elastic_transform': 0.8175,
      'fog': 0.7263,
      'gaussian_blur': 0.8213,
      'glass_blur': 0.8017,
      'impulse_noise': 0.6881,
      'jpeg_compression': 0.8541,
      'motion_blur': 0.8045,
      'pixelate': 0.8531,
      'shot_noise': 0.8275,
      'snow': 0.8258,
      'speckle_noise': 0.8183,
      'zoom_blur': 0.8279,
    },
    'low_pass': {
      'brightness': 0.8996,
      'contrast': 0.6917,
      'defocus_blur': 0.9063,
      'elastic_transform': 0.8838,
      'fog': 0.8191,
      'gaussian_blur': 0.8929,
      'glass_blur': 0.877,
      'impulse_noise': 0.5999,
      'jpeg_compression': 0.8405,
      'motion_blur': 0.8605,
      'pixelate': 0.9156,
      'shot_noise': 0.7447,
      'snow': 0.8688,
      'speckle_noise': 0.7502,
      'zoom_blur': 0.8987,
    },
    'high_pass': {
      'brightness': 0.9275,
      'contrast': 0.7806,
      'defocus_blur': 0.7489,
      'elastic_transform': 0.787,
      'fog': 0.8811,
      'gaussian_blur': 0.6453,
      'glass_blur': 0.4735,
      'impulse_noise': 0.3619,
      'jpeg_compression': 0.6395,
      'motion_blur': 0.7206,
      'pixelate': 0.6234,
      'shot_noise': 0.5374,
      'snow': 0.7929,
      'speckle_noise': 0.5603,
      'zoom_blur': 0.6514,
    },
    'auto_augment': {
      'brightness': 0.9635,
      'contrast': 0.9526,
      'defocus_blur': 0.9229,
      'elastic_transform': 0.8726,
      'fog': 0.9463,
      'gaussian_blur': 0.884,
      'glass_blur': 0.7621,
      'impulse_noise': 0.856,
      'jpeg_compression': 0.8142,
      'motion_blur': 0.8491,
      'pixelate': 0.7066,
      'shot_noise': 0.7834,
      'snow': 0.8939,
      'speckle_noise': 0.8125,
      'zoom_blur': 0.8994,
    },
  },
  average={
    'natural': 0.7728,
    'gaussian': 0.8292,
    'adversarial': 0.8095,
    'low_pass': 0.8299,
    'high_pass': 0.6754,
    'auto_augment': 0.8613,
  },
  mce={
    'natural': 1.0,
    'gaussian': 0.9831,
    'adversarial': 1.0825,
    'low_pass': 0.8924,
    'high_pass': 1.4449,
    'auto_augment': 0.6376,
  },
)
"""CIFAR-10, WRN-28-10, 15 corruptions."""

TABLE_4 = PublishedTable(
  'table 4',
  clean={
    'natural': 0.7623,
    'gaussian': 0.7425,
    'low_pass': 0.7082,
    'high_pass': 0.75,
    'auto_augment': 0.7725,
  },
  corrupted={
    'natural': {
      'brightness': 0.6975,
      'contrast': 0.4449,
      'defocus_blur': 0.5023,
      'elastic_transform': 0.5637,
      'fog': 0.5715,
      'glass_blur': 0.4187,
      'gaussian_noise': 0.4492,
      'impulse_noise': 0.421,
      'jpeg_compression': 0.663,
      'pixelate': 0.5826,
      'shot_noise': 0.4294,
      'zoom_blur': 0.3663,
    },
    'gaussian': {
      'brightness': 0.6687,
      'contrast': 0.3578,
      'defocus_blur': 0.5294,
      'elastic_transform': 0.6,
      'fog': 0.4736,
      'glass_blur': 0.5217,
      'gaussian_noise': 0.6956,
      'impulse_noise': 0.6785,
      'jpeg_compression': 0.6997,
      'pixelate': 0.6173,
      'shot_noise': 0.682,
      'zoom_blur': 0.3653,
    },
    'low_pass': {
      'brightness': 0.6214,
      'contrast': 0.3473,
      'defocus_blur': 0.5803,
      'elastic_transform': 0.6211,
      'fog': 0.4031,
      'glass_blur': 0.6,
      'gaussian_noise': 0.4897,
      'impulse_noise': 0.4736,
      'jpeg_compression': 0.5688,
      'pixelate': 0.679,
      'shot_noise': 0.4894,
      'zoom_blur': 0.4177,
    },
    'high_pass': {
      'brightness': 0.6923,
      'contrast': 0.4911,
      'defocus_blur': 0.4414,
      'elastic_transform': 0.5255,
      'fog': 0.6459,
      'glass_blur': 0.346,
      'gaussian_noise': 0.3979,
      'impulse_noise': 0.3737,
      'jpeg_compression': 0.6388,
      'pixelate': 0.5237,
      'shot_noise': 0.3837,
      'zoom_blur': 0.2826,
    },
    'auto_augment': {
      'brightness': 0.7406,
      'contrast': 0.5656,
      'defocus_blur': 0.5414,
      'elastic_transform': 0.5846,
      'fog': 0.6534,
      'glass_blur': 0.5073,
      'gaussian_noise': 0.5798,
      'impulse_noise': 0.5832,
      'jpeg_compression': 0.6893,
      'pixelate': 0.6814,
      'shot_noise': 0.5845,
      'zoom_blur': 0.3398,
    },
  },
  average={
    'natural': 0.5092,
    'gaussian': 0.5741,
    'low_pass': 0.5243,
    'high_pass': 0.4785,
    'auto_augment': 0.5876,
  },
  mce={},
)
"""ImageNet, ResNet-50, 12 corruptions."""

TABLE_1 = {
  'natural': (0.9606, 0.9484, 0.9395, 0.9072, 0.7429),
  'fog_noise': (0.9090, 0.8726, 0.8120, 0.7175, 0.4626),
}
"""CIFAR-10, accuracy under fog at severities 1 to 5, trained plainly and on fog noise."""

TABLE_2 = ('natural', 'gaussian', 'adversarial', 'auto_augment')
"""Classifiers of table 2, which is table 3 in whole percent."""
