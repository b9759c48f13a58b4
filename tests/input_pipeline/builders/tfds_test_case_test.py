"""TFDS's own test case passes for each builder, on inputs made here."""

import pathlib
import tempfile

import pytest
import tensorflow_datasets as tfds

from input_pipeline import builders
from input_pipeline.builders.corrupted import CorruptedConfig
from input_pipeline.builders.held_out_environments import HeldOutConfig
from input_pipeline.builders.si_score_scenes import ScenesConfig
from robustness.scenes import designs
from tests.input_pipeline.builders.conftest import LABELS, SIDE, save_parts, store_pictures
from tests.input_pipeline.builders.video_neighbors_test import released

pytest.importorskip('dill', reason="TFDS's test case needs dill")


class MadeInputs(tfds.testing.DatasetBuilderTestCase):
  """Before its tests a class makes its inputs in a folder, and by `config` what reads them."""

  SKIP_CHECKSUMS = True  # nothing is downloaded
  OVERLAPPING_SPLITS = []

  @classmethod
  def setUpClass(cls):
    cls._temporary = tempfile.TemporaryDirectory()
    cls.folder = pathlib.Path(cls._temporary.name)
    cls.EXAMPLE_DIR = str(cls.folder)
    cls.BUILDER_CONFIG_NAMES_TO_TEST = [cls.config()]
    super().setUpClass()

  @classmethod
  def tearDownClass(cls):
    super().tearDownClass()
    cls._temporary.cleanup()


class CorruptedTest(MadeInputs):
  DATASET_CLASS = builders.Corrupted
  SPLITS = {'test': len(LABELS)}

  @classmethod
  def config(cls):
    store_pictures(cls.folder)
    base = {'base': 'pictures', 'base_dir': str(cls.folder)}
    return CorruptedConfig(corruption='brightness', severity=3, **base)


class HeldOutEnvironmentsTest(MadeInputs):
  DATASET_CLASS = builders.HeldOutEnvironments
  SPLITS = {
    'train': 5 + 2,  # each as it is, and the two of class a turned
    **{f'test_{environment}_c1': 2 * n for environment, n in (('clean', 1), ('rotation', 3))},
    **{f'test_{environment}_c0': 4 * n for environment, n in (('clean', 1), ('rotation', 3))},
  }

  @classmethod
  def config(cls):
    store_pictures(cls.folder)
    return HeldOutConfig(
      name='turned',
      description='Turned pictures.',
      environments=('rotation',),
      base='pictures',
      base_dir=str(cls.folder),
      class_groups=(('a',),),
      train_split='test[:5]',
      test_split='test[5:]',
    )


class SiScoreScenesTest(MadeInputs):
  DATASET_CLASS = builders.SiScoreScenes
  SPLITS = {'test': 2 * 2}  # places, and backgrounds of the one object

  @classmethod
  def config(cls):
    folders = save_parts(cls.folder, SIDE)
    design = designs.cross('places', areas=(0.1,), angles=(0,), xs=(0.4, 0.6), ys=(0.5,), side=SIDE)
    return ScenesConfig('places', description='Two places.', design=design, **folders)


class VideoNeighborsTest(MadeInputs):
  DATASET_CLASS = builders.VideoNeighbors
  SPLITS = {'test': 5}

  @classmethod
  def config(cls):
    released(cls.folder)
    return 'imagenet_vid_robust'


del MadeInputs  # has nothing to test itself
