"""TFDS data set `held_out_environments`: images in environments that training shows to some
classes.

An environment is a corruption or rotation T_k; a cell is one group of classes in one environment.
`tfds.load('held_out_environments/cifar10_corruptions')` works after
`import input_pipeline.builders`. The split `train` has every training image of the base once clean
(environment E_0), and each image of the class group C_k once more under T_k: exactly the cells that
systematic robustness permits (Omran and Schiele 2022). Every cell of the test is a split,
`test_<environment>_c<group>` (c0 holds the classes of no group), with all images at all severities
or angles. Splits can be joined as in TFDS, 'test_snow_c1+test_snow_c2'.

A test image equals what the study `systematic` shows for the same example and seed, rounded to 8
bits.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np
import tensorflow_datasets as tfds
from numpy.typing import ArrayLike

from input_pipeline.builders import made_of
from input_pipeline.tfds_sets import prepared_builder
from robustness.core import random_keys
from robustness.core.errors import InputError
from robustness.core.rows import Rows
from robustness.core.settings import require
from robustness.environments import transforms
from robustness.environments.class_groups import ClassGroups, balanced_groups, groups_by_name

TRAIN, TEST = 'train', 'test'
STREAM, TRAIN_STREAM = 'systematic', 'held_out_environments/train'
"""Names of the random streams of test and training images."""
DESCRIPTION = """\
Images of a base data set in environments (corruptions, rotations) that training shows to some
classes alone, to measure whether robustness carries over to the others (systematic robustness). An
example is `image`, `label`, `environment`, `class_group` (k for the classes that see the k-th
environment in training, 0 for those left over), `seen` (whether the cell is one of training's),
`level` (severity, or degrees of a rotation; 0 of clean images) and `source_id`, its position in
what is read of the base's split.
"""
INSTANCES: dict[str, tuple[str, ...]] = {
  'corruptions': ('gaussian_noise', 'gaussian_blur', 'contrast', 'snow'),
  'rotation': ('rotation',),
}
"""{end of a config's name: its environments}, as in the paper."""
NOWHERE = -1
"""Number in place of an environment for rows that are not shown."""
View = tuple[ArrayLike, ArrayLike]
"""One way of showing B rows: the number of the environment of each row, or `NOWHERE`, and its level
(severity or degrees), integers [B], or one integer for all rows."""
Views = Callable[[np.ndarray, np.ndarray], Iterable[View]]
"""Returns the views of B rows from their ids and class groups, [B] each."""
Example = tuple[str, dict[str, np.ndarray | int | bool]]
"""Key and features of an example."""


@dataclasses.dataclass(eq=False)
class HeldOutConfig(made_of.BaseConfig):
  """Config of a TFDS data set with training images from only some classes in each environment.

  An environment is a transform of the images, such as fog. In environment 0 images are unchanged;
  in environment k = 1, ..., M they are transformed by T_k. The training split has all classes in
  environment 0, and only the classes of a group C_k in environment k. Test splits have all classes
  in all environments.

  Attributes:
    name: name of the config, with which TFDS loads the data set.
    base: TFDS name of the untransformed data set, which must have `image` and `label`.
    base_dir: TFDS folder of the base data set; '' is the folder of this data set.
    seed: seed of all random choices but the class groups.
    resize, crop, interpolation, resized_by: how images are resized and cropped before they are
      transformed; see `DataSettings`.
    environments: names of T_1, ..., T_M: corruptions or 'rotation'.
    class_groups: class names of C_1, ..., C_M; () chooses groups at random.
    classes_per_group, class_group_seed: size and seed of random groups. The size 0 makes groups as
      large as possible, or half of the classes if there is one environment.
    severities: severities of corruptions. Each training image gets a random one.
    angles: rotation angles of training images, in degrees. Each image gets a random one; test
      images are rotated by 90, 180 and 270 degrees.
    train_split, test_split: splits of the base data set, with optional slices.
  """

  WHOLE_NUMBERS = (*made_of.BaseConfig.WHOLE_NUMBERS, 'classes_per_group', 'class_group_seed')
  description: str | None = 'Class × environment cells, some of them held out'
  environments: tuple[str, ...] = INSTANCES['corruptions']
  class_groups: tuple[tuple[str, ...], ...] = ()
  classes_per_group: int = 0
  class_group_seed: int = 0
  severities: tuple[int, ...] = (1, 2, 3, 4, 5)
  angles: tuple[int, ...] = tuple(range(30, 360, 30))
  train_split: str = TRAIN
  test_split: str = TEST

  def __post_init__(self) -> None:
    """Raises InputError for invalid environments, levels or class groups of a config.

    A config with the name of one of the paper's data sets must have its environments.
    """
    super().__post_init__()
    transforms.check_names('environments', self.environments)
    transforms.check_levels('config', self.severities, self.angles)
    for name in ('classes_per_group', 'class_group_seed'):
      value = getattr(self, name)
      is_valid = value == 0 or not self.class_groups
      require(is_valid, name, value, '0 where class_groups names the classes')
    # a config called like one of the paper's, such as 'cifar10_rotation', has its environments
    instance = self.name.rpartition('_')[2]
    if instance in INSTANCES:
      valid = f'{INSTANCES[instance]} in a config called {self.name!r}'
      require(self.environments == INSTANCES[instance], 'environments', self.environments, valid)

  @property
  def names(self) -> list[str]:
    """Names of all environments (transforms of the images), with the clean environment first."""
    return [transforms.CLEAN, *self.environments]

  def groups(self, class_names: tuple[str, ...]) -> ClassGroups:
    """Returns the groups of classes, one for each environment in which they are trained.

    Args:
      class_names: names of all classes, in label order.

    Raises:
      InputError: the numbers of groups and environments differ.
    """
    count = len(self.environments)
    if self.class_groups:
      groups = groups_by_name(self.class_groups, class_names)
    else:
      groups = balanced_groups(count, class_names, self.class_group_seed, self.classes_per_group)
    if len(groups) != count:
      names = ', '.join(self.environments)
      problem = f'there are {len(groups)} class groups for {count} environments ({names})'
      raise InputError(f'{problem}; give one group for each.')
    return groups


def parse_name(name: str) -> HeldOutConfig:
  """Returns the config with the published environments for a name such as 'cifar10_corruptions'.

  Args:
    name: <base data set>_corruptions or <base data set>_rotation.

  Raises:
    InputError: the name has another form.
  """
  base, _, instance = name.rpartition('_')
  if not base or instance not in INSTANCES:
    raise InputError(
      f'{name!r} is no config of held_out_environments: <base>_corruptions or <base>_rotation, '
      "for example 'cifar10_corruptions', or config=HeldOutConfig(...) for any other choice."
    )
  return HeldOutConfig(name=name, base=base, environments=INSTANCES[instance])


class HeldOutEnvironments(made_of.MadeOfBase, tfds.core.GeneratorBasedBuilder):
  """TFDS data set to measure whether robustness generalises to classes (systematic robustness).

  In the training split, each group of classes is transformed in one way only, such as by fog, and
  also shown clean. In the test splits, every group is transformed in every way.
  """

  CONFIG = HeldOutConfig
  PARSE_NAME = staticmethod(parse_name)
  BUILDER_CONFIGS = [parse_name(f'cifar10_{i}') for i in INSTANCES]
  DESCRIPTION, PAPER = DESCRIPTION, 'omran2022towards'

  def features(self) -> dict[str, made_of.Feature]:
    """Returns the features of an example.

    * `image`, `label`: as in the base data set, with the image transformed.
    * `environment`: the transform, such as 'fog'.
    * `class_group`: index of the class group of the label.
    * `seen`: whether the training split has images of this class group in this environment.
    * `level`: severity, or angle in degrees.
    * `source_id`: index of the image in the split of the base data set.
    """
    scalars = {'class_group': np.int32, 'seen': np.bool_, 'level': np.int32, 'source_id': np.int64}
    return {
      **self.base_features(),
      'environment': tfds.features.ClassLabel(names=self.builder_config.names),
      **{name: tfds.features.Scalar(dtype=dtype) for name, dtype in scalars.items()},
    }

  def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict[str, object]:
    """Returns the examples of each split, and stores settings and class groups as metadata.

    The splits are 'train', and one for each environment and class group of the test, such as
    'test_snow_c1'. The base data set is downloaded if it is not prepared.
    """
    config = self.builder_config
    base = prepared_builder(config.base, self.base_dir)
    train = made_of.open_base(config, self.base_dir, config.train_split, key='train_split')
    test = made_of.open_base(config, self.base_dir, config.test_split, key='test_split')
    groups = config.groups(train.class_names)
    for name in config.environments:
      transforms.get(name).check_shape(train.image_shape)
    self.info.metadata.update({'base': base.info.full_name, 'class_groups': groups.describe()})
    self.note_inputs()
    # the labels of each batch of test images, without its padding
    test_labels = [batch['label'][batch['mask']] for batch in test.batches(made_of.BLOCK)]
    group_of_image = groups.of_label[np.concatenate(test_labels)]
    groups_without_images = np.setdiff1d(groups.of_label, group_of_image)
    if len(groups_without_images):
      raise InputError(
        f'the test split {config.test_split!r} has no image of the classes of '
        f'c{groups_without_images[0]}: take more of it.'
      )
    train_examples = self._transformed(train, groups, TRAIN_STREAM, self._training_views)
    splits: dict[str, object] = {TRAIN: train_examples}
    for index, environment in enumerate(config.names):
      for group in np.unique(groups.of_label).tolist():
        rows = test.at(np.flatnonzero(group_of_image == group))
        splits[f'test_{environment}_c{group}'] = self._test(rows, groups, index)
    return splits

  def _training_views(self, ids: np.ndarray, groups: np.ndarray) -> Iterator[View]:
    """Yields the two ways of showing a batch of training images: clean, then transformed.

    Environment 0 is clean, the others are transforms. An image of class group k > 0 is shown in
    environment k, at a random severity or angle. Images of classes in no group (0) are shown clean
    only.

    Args:
      ids: int [B], ids of the images.
      groups: int [B], class groups of the images.

    Yields:
      (environments, levels): the environment of each image, or `NOWHERE` if it is not shown, and
      its severity or angle. One integer stands for all images.
    """
    yield 0, 0  # the clean environment and its only level, for all images
    ids_with_groups = zip(ids.tolist(), groups.tolist(), strict=True)
    levels = [self._training_level(example_id, group) for example_id, group in ids_with_groups]
    yield np.where(groups > 0, groups, NOWHERE), levels

  def _training_level(self, example: int, group: int) -> int:
    """Returns the random severity or angle of a transformed training image.

    The result depends only on the seed of the config and on the image.

    Args:
      example: id of the image.
      group: class group of the image, which is also the index of its environment.
    """
    config = self.builder_config
    levels = transforms.get(config.names[group]).levels(config.severities, config.angles)
    draw = np.random.default_rng((config.seed, example)).random()  # in [0, 1)
    return levels[int(draw * len(levels))]

  def _test(self, rows: Rows, groups: ClassGroups, environment: int) -> Iterator[Example]:
    """Yields the test examples of one class group in one environment.

    Each image is shown at every level (severity or angle).

    Args:
      rows: the images of the class group.
      groups: the class groups.
      environment: index of the environment; 0 for clean images, with the only level 0.
    """
    levels: Sequence[int] = (0,)
    if environment > 0:
      transform = transforms.get(self.builder_config.names[environment])
      levels = transform.levels(self.builder_config.severities, transforms.RIGHT_ANGLES)
    views: list[View] = [(environment, level) for level in levels]
    # all images have the same views, whatever their ids and groups
    return self._transformed(rows, groups, STREAM, lambda ids, group: views)

  def _transformed(
    self, rows: Rows, groups: ClassGroups, stream: str, views: Views
  ) -> Iterator[Example]:
    """Yields `(key, example)` for all images of a split, each transformed in one or more ways.

    A key is <id of the image>_<index of the environment>_<level>, such as 000000012_2_005.

    Args:
      rows: the images.
      groups: the class groups.
      stream: name of the random stream.
      views: called with the ids and class groups of a batch, [B] each; returns the ways of showing
        it, each an environment and a level (severity or angle) for every image.
    """
    show = transformer(self.builder_config.environments, self.builder_config.seed, stream)
    for batch in rows.batches(made_of.BLOCK):
      ids, group_of_image = batch['example_id'], groups.of_label[batch['label']]
      for view_environments, view_levels in views(ids, group_of_image):
        # arrays [B], where a single number stands for all images of the batch
        environments = np.broadcast_to(np.asarray(view_environments, np.int32), ids.shape)
        levels = np.broadcast_to(np.asarray(view_levels, np.int32), ids.shape)
        images = show(batch['image'], ids, environments, levels)
        is_shown = (environments != NOWHERE) & batch['mask']
        for index in np.flatnonzero(is_shown):
          image_id, environment = int(ids[index]), int(environments[index])
          class_group = int(group_of_image[index])
          example = {
            'image': images[index],
            'label': int(batch['label'][index]),
            'environment': environment,
            'class_group': class_group,
            # training shows a class clean and in the environment of its group's number
            'seen': environment in (0, class_group),
            'level': int(levels[index]),
            'source_id': image_id,
          }
          yield f'{image_id:09d}_{environment}_{int(levels[index]):03d}', example


@functools.lru_cache(maxsize=4)
def transformer(
  environments: tuple[str, ...], seed: int, stream: str
) -> Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], np.ndarray]:
  """Returns a compiled function that transforms each image of a batch in its own way.

  Args:
    environments: names of M transforms.
    seed: seed of the random numbers.
    stream: name of the random stream.

  Returns:
    A function of four arrays that returns images, uint8 [B, H, W, C]. The arguments are

    * images, float32 [B, H, W, C] in [0, 1];
    * ids of the images, int [B];
    * the transform of each image, int [B], 1 to M, or 0 for none;
    * the level of each transform, int [B], a severity or an angle in degrees.
  """
  root = random_keys.stream(seed, stream)
  # The number of a view is the `view_base` of its transform plus its level, or 0 if it is clean. It
  # determines, together with the example's id, the random numbers.
  view_bases = jnp.array([0, *(transforms.get(name).view_base for name in environments)])

  def show(
    image: jax.Array, example_id: jax.Array, environment: jax.Array, level: jax.Array
  ) -> jax.Array:
    """Returns an image after the transform number `environment` at a level."""
    key = random_keys.for_example(root, example_id, view_bases[environment] + level)
    return transforms.transform(key, image, environment, level, environments)

  return made_of.compiled(show)
