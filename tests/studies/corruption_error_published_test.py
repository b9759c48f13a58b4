"""The study's own numbers from accuracies that were published: averages and mCE as printed.

AugMix's mCE of 65.3 on ImageNet-C is not among them: that takes its errors by corruption, of which
no table was at hand.
"""

from __future__ import annotations

import pathlib

import numpy as np
import pytest

from robustness.records import Layout, Records
from robustness.studies.corruption_error import Study
from robustness.study import Evaluation
from tests.metrics.corruption_error_test import PRINTED, TABLE_3

ROWS = 10_000  # an accuracy of four decimals is a whole number of them
ORDER_3 = ('brightness', 'contrast', 'defocus_blur', 'elastic_transform', 'fog', 'gaussian_blur',
           'glass_blur', 'impulse_noise', 'jpeg_compression', 'motion_blur', 'pixelate',
           'shot_noise', 'snow', 'speckle_noise', 'zoom_blur')
CLEAN_3 = {'natural': .9626, 'high pass': .9378, 'AutoAugment': .9693}
AVERAGES_3 = {'natural': .7728, 'high pass': .6754, 'AutoAugment': .8613}

# Yin et al. (2019), table 4: ImageNet, accuracy by corruption, mean over severities.
ORDER_4 = ('brightness', 'contrast', 'defocus_blur', 'elastic_transform', 'fog', 'glass_blur',
           'gaussian_noise', 'impulse_noise', 'jpeg_compression', 'pixelate', 'shot_noise',
           'zoom_blur')
TABLE_4 = {
    'natural': (.6975, .4449, .5023, .5637, .5715, .4187, .4492, .4210, .6630, .5826, .4294, .3663),
    'Gauss': (.6687, .3578, .5294, .6000, .4736, .5217, .6956, .6785, .6997, .6173, .6820, .3653),
    'low pass': (.6214, .3473, .5803, .6211, .4031, .6000, .4897, .4736, .5688, .6790, .4894,
                 .4177),
    'high pass': (.6923, .4911, .4414, .5255, .6459, .3460, .3979, .3737, .6388, .5237, .3837,
                  .2826),
    'AutoAugment': (.7406, .5656, .5414, .5846, .6534, .5073, .5798, .5832, .6893, .6814, .5845,
                    .3398)}
CLEAN_4 = {'natural': .7623, 'Gauss': .7425, 'low pass': .7082, 'high pass': .7500,
           'AutoAugment': .7725}
AVERAGES_4 = {'natural': .5092, 'Gauss': .5741, 'low pass': .5243, 'high pass': .4785,
              'AutoAugment': .5876}


def made_records(path: pathlib.Path, study: Study, label: str, clean: float,
                 accuracies: dict[str, float]) -> Evaluation:
  """Records in which the clean view and each corruption have the given accuracies, exactly."""
  wanted = np.array([clean, *(accuracies[name] for name in study.names)])
  wrong = np.arange(ROWS)[:, None] >= np.round(wanted * ROWS)[None, :]
  records = Records(path / label, Layout(ROWS, len(wanted), ROWS, len(wanted)), {'label': label})
  records.write(0, 0, {'rank': 9 * wrong.astype(np.int32)})
  return Evaluation(label, records)


def test_averages_of_table_4(tmp_path: pathlib.Path) -> None:
  study = Study(corruptions=('fourier_imagenet',), severities=(3,))
  numbers = study.reduce([
      made_records(tmp_path, study, label, CLEAN_4[label], dict(zip(ORDER_4, row, strict=True)))
      for label, row in TABLE_4.items()], (224, 224, 3)).numbers
  for label, printed in AVERAGES_4.items():
    average = 1 - numbers[f'{label}/mean_error/fourier_imagenet'].value
    assert average == pytest.approx(printed, abs=6e-5), label
    assert numbers[f'{label}/clean_error'].value == pytest.approx(1 - CLEAN_4[label])


def test_averages_and_mce_of_table_3(tmp_path: pathlib.Path) -> None:
  study = Study(corruptions=('fourier_cifar',), severities=(3,))
  findings = study.reduce([
      made_records(tmp_path, study, label, clean, dict(zip(ORDER_3, TABLE_3[label], strict=True)))
      for label, clean in CLEAN_3.items()], (32, 32, 3))
  for label, printed in AVERAGES_3.items():
    average = 1 - findings.numbers[f'{label}/mean_error/fourier_cifar'].value
    assert average == pytest.approx(printed, abs=6e-5), label
    mce = findings.numbers[f'{label}/mCE/fourier_cifar'].value
    assert mce == pytest.approx(PRINTED[label], abs=3e-4), label
