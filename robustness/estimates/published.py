"""Published errors and accuracies with sources: baselines of mCE, tables of Yin et al. (2019)."""

import dataclasses
import math
from collections.abc import Mapping


def _columns(text: str) -> dict[str, dict[str, float]]:
  """Returns {column: {row: number}} of a table in text with the columns in its first line."""
  labels, *lines = (line.split() for line in text.strip().splitlines())
  rows = {head: map(float, values) for head, *values in lines}
  table = {head: dict(zip(labels, values, strict=True)) for head, values in rows.items()}
  return {label: {head: row[label] for head, row in table.items()} for label in labels}


_ERRORS = _columns("""
                    alexnet  standard
gaussian_noise     0.886428  0.52974
shot_noise         0.894468  0.41220
impulse_noise      0.922640  0.44700
defocus_blur       0.819880  0.18512
glass_blur         0.826268  0.49000
motion_blur        0.785948  0.22276
zoom_blur          0.798360  0.24398
snow               0.866816  0.18114
frost              0.826572  0.24956
fog                0.819324  0.11212
brightness         0.564592  0.06716
contrast           0.853204  0.17390
elastic_transform  0.646056  0.16220
pixelate           0.717840  0.28018
jpeg_compression   0.606500  0.22436
""")
ALEXNET_ERRORS = _ERRORS['alexnet']
"""Top-1 error of AlexNet on ImageNet-C, mean over severities, the denominators of mCE.

Source: Hendrycks and Dietterich, Benchmarking neural network robustness to common corruptions and
perturbations (2019), and the values printed with their released code.
"""

ALEXNET_CLEAN_ERROR = 0.43478
"""Top-1 error of the same AlexNet, torchvision's, on the ImageNet validation set."""

_SEQUENCES = _columns("""
                flips  top5
gaussian_noise  .2365  4.765
shot_noise      .3006  5.758
motion_blur     .0930  1.930
zoom_blur       .0594  1.340
snow            .1193  2.418
brightness      .0489  1.193
translate       .1101  2.625
rotate          .1310  2.952
tilt            .0705  1.745
scale           .2353  4.478
""")
ALEXNET_FLIPS = _SEQUENCES['flips']
"""Flip probability of AlexNet on ImageNet-P by perturbation, the denominators of mFR."""
ALEXNET_TOP5_DISTANCES = _SEQUENCES['top5']
"""Its top-5 distance, the denominators of mT5D.

Source: Hendrycks and Dietterich (2019), rounded. A ResNet-50's divided by them have the published
means .580 and .784.
"""

ALEXNET_3DCC_ERRORS = _columns("""
                alexnet
near_focus       0.6107
far_focus        0.6515
fog_3d           0.7736
flash            0.8012
color_quant      0.5962
low_light        0.8225
xy_motion_blur   0.8248
z_motion_blur    0.7959
iso_noise        0.9315
bit_error        0.6834
h265_abr         0.5674
h265_crf         0.5252
""")['alexnet']
"""Top-1 error of AlexNet on 5,000 images of ImageNet-3DCC, mean over severities.

Source: Kar et al., 3D Common Corruptions for Object Recognition (2022), and their evaluation.
"""

CIFAR10_STANDARD_ERRORS = _ERRORS['standard']
"""Top-1 error on CIFAR-10-C of a plainly trained WideResNet-28-10, mean over severities.

Source: RobustBench (Croce et al. 2021), the model "Standard" in the table of accuracies by
corruption and severity on all 10,000 images that its repository holds.
"""


@dataclasses.dataclass(frozen=True)
class PublishedErrors:
  """The published errors of a classifier under the corruptions of a set.

  Attributes:
    title: the classifier and the set.
    corrupted: mean error over severities, by corruption.
    clean: error on clean images; NaN where it was not published, which leaves out relative mCE.
    side: of the set's images, pixels.
    set_name: what papers call the set.
  """

  title: str
  corrupted: Mapping[str, float]
  clean: float
  side: int
  set_name: str

  @property
  def means(self) -> dict[str, float]:
    """The errors as the baseline of a `MeanRatio`: by corruption, and on clean images by ''."""
    return {'': self.clean, **self.corrupted}


BASELINES = {
  'alexnet': PublishedErrors(
    'AlexNet on ImageNet-C', ALEXNET_ERRORS, ALEXNET_CLEAN_ERROR, 224, 'ImageNet-C'
  ),
  'alexnet_3dcc': PublishedErrors(
    'AlexNet on 5,000 images of ImageNet-3DCC', ALEXNET_3DCC_ERRORS, math.nan, 224, 'ImageNet-3DCC'
  ),
  'cifar10_standard': PublishedErrors(
    "RobustBench's Standard WideResNet-28-10 on CIFAR-10-C",
    CIFAR10_STANDARD_ERRORS,
    math.nan,
    32,
    'CIFAR-10-C',
  ),
}
"""Baselines by the name in `config.study.baseline`."""


@dataclasses.dataclass(frozen=True)
class PublishedTable:
  """A table of accuracies by classifier.

  Attributes:
    name: in the paper.
    images: of the set, under each corruption and severity.
    clean: accuracy on clean images.
    corrupted: by classifier, by corruption.
    average, mce: as printed; `mce` is empty where the table has none.
  """

  name: str
  images: int
  clean: Mapping[str, float]
  corrupted: Mapping[str, Mapping[str, float]]
  average: Mapping[str, float]
  mce: Mapping[str, float]


def _read(name: str, images: int, text: str) -> PublishedTable:
  """Returns a table of accuracies, means over the five severities, by labels of
  `configs/fourier_table.py`."""
  corrupted = _columns(text)
  clean, average, mce = (
    {label: column.pop(head) for label, column in corrupted.items() if head in column}
    for head in ('clean', 'average', 'mCE')
  )
  return PublishedTable(name, images, clean, corrupted, average, mce)


TABLE_3 = _read(
  'table 3',
  10_000,
  """
                  natural gaussian adversarial low_pass high_pass auto_augment
clean              0.9626   0.9369      0.8725   0.9235    0.9378       0.9693
brightness         0.9493   0.9244      0.8705   0.8996    0.9275       0.9635
contrast           0.8225   0.5703      0.7700   0.6917    0.7806       0.9526
defocus_blur       0.8456   0.8371      0.8355   0.9063    0.7489       0.9229
elastic_transform  0.8600   0.8429      0.8175   0.8838    0.7870       0.8726
fog                0.8997   0.7194      0.7263   0.8191    0.8811       0.9463
gaussian_blur      0.7273   0.7907      0.8213   0.8929    0.6453       0.8840
glass_blur         0.5677   0.8046      0.8017   0.8770    0.4735       0.7621
impulse_noise      0.5428   0.8308      0.6881   0.5999    0.3619       0.8560
jpeg_compression   0.8009   0.9078      0.8541   0.8405    0.6395       0.8142
motion_blur        0.8079   0.7715      0.8045   0.8605    0.7206       0.8491
pixelate           0.7317   0.8983      0.8531   0.9156    0.6234       0.7066
shot_noise         0.6773   0.9233      0.8275   0.7447    0.5374       0.7834
snow               0.8505   0.8835      0.8258   0.8688    0.7929       0.8939
speckle_noise      0.7041   0.9171      0.8183   0.7502    0.5603       0.8125
zoom_blur          0.8046   0.8163      0.8279   0.8987    0.6514       0.8994
average            0.7728   0.8292      0.8095   0.8299    0.6754       0.8613
mCE                1.0000   0.9831      1.0825   0.8924    1.4449       0.6376
""",
)
"""CIFAR-10, WRN-28-10, 15 corruptions."""

ALL_BUT_ONE = _columns("""
                  all_but_one
clean               0.9546
brightness          0.9407
contrast            0.9015
defocus_blur        0.9495
elastic_transform   0.9221
fog                 0.9061
gaussian_blur       0.9448
glass_blur          0.8503
impulse_noise       0.9016
jpeg_compression    0.8807
pixelate            0.9369
shot_noise          0.9342
speckle_noise       0.9352
zoom_blur           0.9412
""")['all_but_one']
"""The last column of table 3: of networks trained on all other corruptions at the same severity;
motion blur and snow, which could not be made on training images, have none."""

TABLE_4 = _read(
  'table 4',
  50_000,
  """
                  natural gaussian low_pass high_pass auto_augment
clean              0.7623   0.7425   0.7082    0.7500       0.7725
brightness         0.6975   0.6687   0.6214    0.6923       0.7406
contrast           0.4449   0.3578   0.3473    0.4911       0.5656
defocus_blur       0.5023   0.5294   0.5803    0.4414       0.5414
elastic_transform  0.5637   0.6000   0.6211    0.5255       0.5846
fog                0.5715   0.4736   0.4031    0.6459       0.6534
glass_blur         0.4187   0.5217   0.6000    0.3460       0.5073
gaussian_noise     0.4492   0.6956   0.4897    0.3979       0.5798
impulse_noise      0.4210   0.6785   0.4736    0.3737       0.5832
jpeg_compression   0.6630   0.6997   0.5688    0.6388       0.6893
pixelate           0.5826   0.6173   0.6790    0.5237       0.6814
shot_noise         0.4294   0.6820   0.4894    0.3837       0.5845
zoom_blur          0.3663   0.3653   0.4177    0.2826       0.3398
average            0.5092   0.5741   0.5243    0.4785       0.5876
""",
)
"""ImageNet, ResNet-50, 12 corruptions."""

TABLE_1 = {
  'natural': (0.9606, 0.9484, 0.9395, 0.9072, 0.7429),
  'fog_noise': (0.9090, 0.8726, 0.8120, 0.7175, 0.4626),
}
"""CIFAR-10, accuracy under fog at severities 1 to 5, trained plainly and on fog noise."""
