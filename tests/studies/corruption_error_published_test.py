"""The study's own numbers from accuracies that were published: averages and mCE as printed.

AugMix's mCE of 65.3 on ImageNet-C is not among them: that takes its errors by corruption, of which
no table was at hand.
"""

from __future__ import annotations

import pathlib

import numpy as np
import pytest

from robustness.evaluation.records import Layout, Records
from robustness.evaluation.study import Evaluation
from robustness.studies.corruption_error import Study
from tests.metrics.corruption_error_test import PRINTED, TABLE_3

ROWS = 10_000  # an accuracy of four decimals is a whole number of them
ORDER_3 = (
  'brightness',
  'contrast',
  'defocus_blur',
  'elastic_transform',
  'fog',
  'gaussian_blur',
  'glass_blur',
  'impulse_noise',
  'jpeg_compression',
  'motion_blur',
  'pixelate',
  'shot_noise',
  'snow',
  'speckle_noise',
  'zoom_blur',
)
CLEAN_3 = {'natural': 0.9626, 'high pass': 0.9378, 'AutoAugment': 0.9693}
AVERAGES_3 = {'natural': 0.7728, 'high pass': 0.6754, 'AutoAugment': 0.8613}

# Yin et al. (2019), table 4: ImageNet, accuracy by corruption, mean over severities.
ORDER_4 = (
  'brightness',
  'contrast',
  'defocus_blur',
  'elastic_transform',
  'fog',
  'glass_blur',
  'gaussian_noise',
  'impulse_noise',
  'jpeg_compression',
  'pixelate',
  'shot_noise',
  'zoom_blur',
)
TABLE_4 = {
  'natural': (
    0.6975,
    0.4449,
    0.5023,
    0.5637,
    0.5715,
    0.4187,
    0.4492,
    0.4210,
    0.6630,
    0.5826,
    0.4294,
    0.3663,
  ),
  'Gauss': (
    0.6687,
    0.3578,
    0.5294,
    0.6000,
    0.4736,
    0.5217,
    0.6956,
    0.6785,
    0.6997,
    0.6173,
    0.6820,
    0.3653,
  ),
  'low pass': (
    0.6214,
    0.3473,
    0.5803,
    0.6211,
    0.4031,
    0.6000,
    0.4897,
    0.4736,
    0.5688,
    0.6790,
    0.4894,
    0.4177,
  ),
  'high pass': (
    0.6923,
    0.4911,
    0.4414,
    0.5255,
    0.6459,
    0.3460,
    0.3979,
    0.3737,
    0.6388,
    0.5237,
    0.3837,
    0.2826,
  ),
  'AutoAugment': (
    0.7406,
    0.5656,
    0.5414,
    0.5846,
    0.6534,
    0.5073,
    0.5798,
    0.5832,
    0.6893,
    0.6814,
    0.5845,
    0.3398,
  ),
}
CLEAN_4 = {
  'natural': 0.7623,
  'Gauss': 0.7425,
  'low pass': 0.7082,
  'high pass': 0.7500,
  'AutoAugment': 0.7725,
}
AVERAGES_4 = {
  'natural': 0.5092,
  'Gauss': 0.5741,
  'low pass': 0.5243,
  'high pass': 0.4785,
  'AutoAugment': 0.5876,
}


def made_records(
  path: pathlib.Path, study: Study, label: str, clean: float, accuracies: dict[str, float]
) -> Evaluation:
  """Records in which the clean view and each corruption have the given accuracies, exactly."""
  given = np.array([clean, *(accuracies[name] for name in study.names)])
  wrong = np.arange(ROWS)[:, None] >= np.round(given * ROWS)[None, :]
  records = Records(path / label, Layout(ROWS, len(given), ROWS, len(given)), {'label': label})
  records.write(0, 0, {'rank': 9 * wrong.astype(np.int32)})
  return Evaluation(label, records)


def test_averages_of_table_4(tmp_path: pathlib.Path) -> None:
  study = Study(corruptions=('fourier_imagenet',), severities=(3,))
  numbers = study.reduce(
    [
      made_records(tmp_path, study, label, CLEAN_4[label], dict(zip(ORDER_4, row, strict=True)))
      for label, row in TABLE_4.items()
    ],
    (224, 224, 3),
  ).numbers
  for label, printed in AVERAGES_4.items():
    average = 1 - numbers[f'{label}/mean_error/fourier_imagenet'].value
    assert average == pytest.approx(printed, abs=6e-5), label
    assert numbers[f'{label}/clean_error'].value == pytest.approx(1 - CLEAN_4[label])


def test_averages_and_mce_of_table_3(tmp_path: pathlib.Path) -> None:
  study = Study(corruptions=('fourier_cifar',), severities=(3,))
  findings = study.reduce(
    [
      made_records(tmp_path, study, label, clean, dict(zip(ORDER_3, TABLE_3[label], strict=True)))
      for label, clean in CLEAN_3.items()
    ],
    (32, 32, 3),
  )
  for label, printed in AVERAGES_3.items():
    average = 1 - findings.numbers[f'{label}/mean_error/fourier_cifar'].value
    assert average == pytest.approx(printed, abs=6e-5), label
    mce = findings.numbers[f'{label}/mCE/fourier_cifar'].value
    assert mce == pytest.approx(PRINTED[label], abs=3e-4), label
