"""TFDS's own test case passes for each builder, on inputs made here."""

from __future__ import annotations

import abc
import pathlib
import tempfile
from typing import Any, ClassVar

import numpy as np
import pytest
import tensorflow_datasets as tfds
from PIL import Image

from input_pipeline import builders
from input_pipeline.builders.corrupted import CorruptedConfig
from input_pipeline.builders.held_out_environments import HeldOutConfig
from input_pipeline.builders.si_score_scenes import ScenesConfig
from robustness.scenes import designs
from tests.input_pipeline.builders.conftest import store_pictures
from tests.input_pipeline.builders.pictures import LABELS
from tests.input_pipeline.builders.video_neighbors_test import released

pytest.importorskip('dill', reason="TFDS's test case needs dill")
SIDE = 16


class MadeInputs(tfds.testing.DatasetBuilderTestCase):
  """The inputs are made in a folder of the class before its tests."""

  SKIP_CHECKSUMS = True  # nothing is downloaded
  OVERLAPPING_SPLITS: ClassVar[list[str]] = []
  folder: ClassVar[pathlib.Path]

  @classmethod
  def setUpClass(cls) -> None:
    cls._temporary = tempfile.TemporaryDirectory()
    cls.folder = pathlib.Path(cls._temporary.name)
    cls.EXAMPLE_DIR = str(cls.folder)
    cls.BUILDER_CONFIG_NAMES_TO_TEST = [cls.config()]
    super().setUpClass()

  @classmethod
  def tearDownClass(cls) -> None:
    super().tearDownClass()
    cls._temporary.cleanup()

  @classmethod
  @abc.abstractmethod
  def config(cls) -> Any:
    """Makes the inputs and returns a config that reads them."""


class CorruptedTest(MadeInputs):
  DATASET_CLASS = builders.Corrupted
  SPLITS: ClassVar[dict[str, int]] = {'test': len(LABELS)}

  @classmethod
  def config(cls) -> CorruptedConfig:
    store_pictures(cls.folder)
    return CorruptedConfig(
      base='pictures', corruption='brightness', severity=3, base_dir=str(cls.folder)
    )


class HeldOutEnvironmentsTest(MadeInputs):
  DATASET_CLASS = builders.HeldOutEnvironments
  SPLITS: ClassVar[dict[str, int]] = {
    'train': 5 + 2,  # each as it is, and the two of class a turned
    **{f'test_{environment}_c1': 2 * n for environment, n in (('clean', 1), ('rotation', 3))},
    **{f'test_{environment}_c0': 4 * n for environment, n in (('clean', 1), ('rotation', 3))},
  }

  @classmethod
  def config(cls) -> HeldOutConfig:
    store_pictures(cls.folder)
    return HeldOutConfig(
      name='turned',
      description='Turned pictures.',
      base='pictures',
      base_dir=str(cls.folder),
      environments=('rotation',),
      class_groups=(('a',),),
      train_split='test[:5]',
      test_split='test[5:]',
    )


class SiScoreScenesTest(MadeInputs):
  DATASET_CLASS = builders.SiScoreScenes
  SPLITS: ClassVar[dict[str, int]] = {'test': 2 * 2}  # places, and backgrounds of the one object

  @classmethod
  def config(cls) -> ScenesConfig:
    (cls.folder / 'cutouts/bagel').mkdir(parents=True)
    (cls.folder / 'grounds').mkdir()
    Image.new('RGBA', (20, 14), (200, 10, 10, 255)).save(cls.folder / 'cutouts/bagel/a.png')
    for number in range(2):
      pixels = np.full((SIDE, SIDE, 3), 100 * number, np.uint8)
      Image.fromarray(pixels).save(cls.folder / f'grounds/{number}.png')
    design = designs.cross('places', areas=(0.1,), angles=(0,), xs=(0.4, 0.6), ys=(0.5,), side=SIDE)
    return ScenesConfig(
      'places',
      description='Two places.',
      design=design,
      foregrounds=str(cls.folder / 'cutouts'),
      backgrounds=str(cls.folder / 'grounds'),
    )


class VideoNeighborsTest(MadeInputs):
  DATASET_CLASS = builders.VideoNeighbors
  SPLITS: ClassVar[dict[str, int]] = {'test': 5}

  @classmethod
  def config(cls) -> str:
    released(cls.folder)
    return 'imagenet_vid_robust'


del MadeInputs  # has nothing to test itself
