r"""Accuracy by what is known of each image, such as pose, background, light or site.

python main.py --config=configs/accuracy_by_factor.py --workdir=/tmp/by_factor

  No download. A small CNN on MNIST digits by class, and by brightness, which shows how heavy the
  strokes are: the thinnest fifth has the lowest accuracy. Half a minute on 2 cores.

python main.py --config=configs/accuracy_by_factor.py:own --workdir=/tmp/by_pose \
    --config.classifier.name=efficientnet_lite0 --config.data.source=file_list \
    --config.data.file_list.path=DIR --config.data.file_list.table=TABLE \
    --config.study.factors=pose,background --config.study.pairs=True \
    --config.study.clusters=object

  Any data set with columns besides the label (docs/running.md): files that a CSV or JSON table
  names, Parquet, WebDataset or ArrayRecord. Intervals are over the values of the column `object`.

python main.py --config=configs/accuracy_by_factor.py:cns_bench --workdir=/tmp/cns_bench \
    --config.classifier.name=efficientnet_lite0 --config.data.cns_bench.path=DIR

  Accuracy over the strength of each shift of CNS-Bench, in the released layout.
"""

from robustness.config.defaults import ConfigDict, default_config, variants
from robustness.config.trainings import small_cnn_on_digits


def digits() -> ConfigDict:
  """Returns the default config: accuracy by class and brightness of a small CNN on MNIST digits."""
  return small_cnn_on_digits('accuracy_by_factor')


def own() -> ConfigDict:
  """Returns the config of accuracy by properties of images, such as class or pose.

  The user names the classifier, the data and, in `config.study.factors`, the properties.
  """
  return default_config('accuracy_by_factor')


def cns_bench() -> ConfigDict:
  """Returns the config of accuracy by shift of CNS-Bench, such as 'snow', and by its scale.

  The scale is the strength of the shift.
  """
  config = default_config('accuracy_by_factor')
  config.data.source = 'cns_bench'
  config.study.factors, config.study.pairs, config.study.bins = ('shift', 'scale'), True, 0
  config.study.strength = 'scale'
  return config


get_config = variants(digits, own, cns_bench)
