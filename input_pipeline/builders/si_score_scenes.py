"""TFDS data set `si_score_scenes`: cutout objects on backgrounds, composed here from two folders.

```python
config = ScenesConfig('size', foregrounds='cutouts', backgrounds='backgrounds')
tfds.builder('si_score_scenes', config=config).download_and_prepare()
tfds.load('si_score_scenes/size', split='test')  # from now on, anywhere
```

Configs are size, location and rotation, the published designs, or any other name with a design of
your own. The tables of the released sets, such as metadata.csv, are written next to the data.
"""

import dataclasses
import functools
import hashlib
import io
import math
from collections.abc import Callable, Iterator, Mapping
from concurrent import futures
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import tensorflow_datasets as tfds
from PIL import Image

from input_pipeline.builders.made_of import ENDS, Feature, MadeOf, digest_of_files
from input_pipeline.sources import scenes
from input_pipeline.sources.si_score import csv_text, metadata_text
from robustness.core.errors import InputError, nearest
from robustness.core.paths import expanded
from robustness.core.settings import choice
from robustness.models.imagenet_names import WNIDS
from robustness.scenes import designs
from robustness.scenes import views as scene_views
from robustness.scenes.composition import MEASURES
from robustness.scenes.designs import LEVEL, Design, draw_backgrounds

CHUNK = 8  # scenes that are composed at once
ROOM = 256  # cutouts are padded to a multiple of this, so that few sizes are compiled
OPTIONS = {'png': {'compress_level': 1}, 'jpeg': {'quality': 75}}
"""{encoding: options with which Pillow saves a scene}; the released sets are JPEG of this
quality.
"""
DESCRIPTION = """\
Cut-out objects on backgrounds, composed by size, location and angle (Yung et al. 2021), to measure
how a classifier's accuracy depends on each of these factors alone. An example is a scene: its
`image`, the object's `label` in ImageNet's order, the released generator's number `image_id`, the
factors `area` (share of the scene), `angle` (degrees), `x` and `y` (of the object's centre, shares
of the scene), the numbers of `object` and `background`, and `fraction_inside`, the share of the
object's rectangle inside the scene. It is made of two folders of yours; the tables of the
released sets lie beside the data.
"""
Example = tuple[int, dict[str, object]]
"""Number and features of a scene."""
Row = dict[str, jax.Array]
"""A background and a cutout, in the form from which scenes are composed."""
Prepare = Callable[[Mapping[str, np.ndarray]], Row]
"""Function that preprocesses an object and a background, see `composer`."""
Compose = Callable[[Row, np.ndarray], jax.Array]
"""Function that renders an object on a background at some levels, see `composer`."""


@dataclasses.dataclass(eq=False)
class ScenesConfig(tfds.core.BuilderConfig):
  """Config of a TFDS data set of scenes: cut-out objects composed onto backgrounds.

  Attributes:
    name: 'size', 'location', 'rotation', or the name of your own design.
    foregrounds: folder of cut-out objects with alpha, in a folder per class; '' is
      MANUAL_DIR/foregrounds.
    backgrounds: folder of backgrounds; '' is MANUAL_DIR/backgrounds.
    design: sizes, angles and positions of objects; None uses the published design called `name`. A
      design also sets how much of an object must be inside the scene, for instance
      `dataclasses.replace(published('location'), min_inside=0)`.
    seed: seed of the random backgrounds.
    measure: what is meant by an object's area: its bounding 'rectangle', as published, or its
      'mask'.
    encoding: 'png', lossless, or 'jpeg', as published.
    beam: whether to prepare the data set with Apache Beam (`pip install '.[beam]'`). Workers need
      access to the folders.
  """

  name: str = 'size'
  foregrounds: str = ''
  backgrounds: str = ''
  design: Design | None = None
  seed: int = 0
  measure: str = 'rectangle'
  encoding: str = 'png'
  beam: bool = False

  def __post_init__(self) -> None:
    choice('measure', self.measure, MEASURES)
    choice('encoding', self.encoding, OPTIONS)

  def levels(self) -> Design:
    """Returns sizes, angles and positions of objects: `design`, or the published design."""
    return self.design or designs.published(self.name)


def _parse_name(name: str) -> ScenesConfig:
  """Returns the config of a published design: 'size', 'location' or 'rotation'.

  Raises:
    InputError: there is no published design of this name.
  """
  if name not in designs.FACTORS:
    raise InputError(
      f'si_score_scenes has no config {name!r}, and nothing is prepared under that '
      f'name; {nearest(name, designs.FACTORS)}, or a design of your own: '
      "config=ScenesConfig('...', design=...)."
    )
  return ScenesConfig(name=name, description=f'The published design of objects by {name}.')


class SiScoreScenes(MadeOf, tfds.core.GeneratorBasedBuilder):
  """TFDS data set of objects on backgrounds that vary in size, location or angle (Yung et al.
  2021).
  """

  MANUAL_DOWNLOAD_INSTRUCTIONS = (
    'Put cutouts into foregrounds/<class>/*.png and pictures into backgrounds/, or name both '
    'folders in ScenesConfig(foregrounds=..., backgrounds=...).'
  )
  CONFIG = ScenesConfig
  PARSE_NAME = staticmethod(_parse_name)
  BUILDER_CONFIGS = [*map(_parse_name, designs.FACTORS)]
  DESCRIPTION, PAPER = DESCRIPTION, 'yung2021si'
  HOMEPAGE = 'https://arxiv.org/abs/2104.04191'

  def features(self) -> dict[str, Feature]:
    """Returns the features of a scene: image, label, area, angle, position and identifiers.

    The image size is None if only the name of a config is known, and no published design has it.
    """
    config = self.builder_config
    has_design = config.design or config.name in designs.FACTORS
    side = config.levels().side if has_design else None
    number, fraction = tfds.features.Scalar(np.int64), tfds.features.Scalar(np.float32)
    return {
      'image': tfds.features.Image(shape=(side, side, 3), encoding_format=config.encoding),
      'label': tfds.features.ClassLabel(names=list(WNIDS)),
      'image_id': number,
      **dict.fromkeys(LEVEL, fraction),  # area, angle, x and y
      'object': number,
      'background': number,
      'fraction_inside': fraction,
    }

  def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict[str, object]:
    """Plans all scenes, writes tables about them, and returns {'test': generator of the scenes}.

    TFDS calls it to prepare the data set.

    Args:
      dl_manager: has the folder with the user's cutouts and backgrounds.
    """
    config = self.builder_config
    has_folders = config.foregrounds and config.backgrounds
    manual = '' if has_folders else str(dl_manager.manual_dir)
    plan = make_plan(config.levels(), self._folders(manual), config.seed, config.measure)
    for name, text in plan.tables().items():
      (self.data_path / name).write_text(text)
    facts = {
      **self.settings(),
      'pairs': len(plan.objects),
      'levels': len(plan.design),
      'full_cross': plan.inside.size,  # scenes of all pairs at all levels, visible or not
      'objects': [f'{c.class_name}/{c.path.name}' for c in plan.cutouts],
      'backgrounds': [path.name for path in plan.backgrounds],
    }
    self.info.metadata.update(facts)
    self.note_inputs(manual)
    examples = functools.partial(pair_examples, plan, config.encoding)
    return {'test': self._generate_examples(range(len(plan.objects)), examples)}

  def settings(self) -> dict[str, object]:
    """Returns the settings that affect the images, with a digest of sizes, angles and positions."""
    config, design = self.builder_config, self.builder_config.levels()
    levels = np.stack([*design.factors.values()]).astype('<f8')  # the same bytes on every machine
    return {
      'design': design.name,
      'levels_sha256': hashlib.sha256(levels.tobytes()).hexdigest(),
      'side': design.side,
      'min_inside': design.min_inside,
      'backgrounds_per_object': designs.BACKGROUNDS_PER_OBJECT,
      'seed': config.seed,
      'measure': config.measure,
      'encoding': config.encoding,
      'jpeg_quality': OPTIONS[config.encoding].get('quality', 0),
    }

  def input_digests(self, manual_dir: str) -> dict[str, str]:
    """Returns `{'foregrounds': digest of all object files, 'backgrounds': of all backgrounds}`."""
    folders = self._folders(manual_dir)
    files = {
      'foregrounds': [c.path for c in scenes.find_cutouts(folders['foregrounds'], 'foregrounds')],
      'backgrounds': scenes.find_backgrounds(folders['backgrounds'], 'backgrounds'),
    }
    roots = {name: expanded(folder) for name, folder in folders.items()}
    return {name: digest_of_files(root, files[name], ENDS) for name, root in roots.items()}

  def _folders(self, manual_dir: str) -> dict[str, str]:
    """Returns the input folders, with the keys 'foregrounds' and 'backgrounds'.

    Args:
      manual_dir: TFDS's folder of manual downloads, used for folders that the config does not name.
    """
    config = self.builder_config
    folders = {'foregrounds': config.foregrounds, 'backgrounds': config.backgrounds}
    return {name: folder or str(Path(manual_dir) / name) for name, folder in folders.items()}


@dataclasses.dataclass(frozen=True)
class ScenePlan:
  """All scenes of a data set before they are rendered: P pairs at L levels.

  A pair is an object with a background. A level is an area, angle and position of the object. Image
  ids and columns of metadata.csv follow the generator of the published data sets.

  Attributes:
    design: the levels.
    cutouts: the objects.
    backgrounds: all background files.
    objects, grounds: int64 [P], index of each pair's object in `cutouts`, and of its background in
      `backgrounds`.
    inside: float32 [P, L], the fraction of the object's bounding rectangle inside the scene.
    measure: what is meant by an object's area: its bounding 'rectangle' or its 'mask'.
  """

  design: Design
  cutouts: tuple[scenes.CutoutFile, ...]
  backgrounds: tuple[Path, ...]
  objects: np.ndarray
  grounds: np.ndarray
  inside: np.ndarray
  measure: str

  @property
  def is_visible(self) -> np.ndarray:
    """Whether enough of the object is inside each scene to render the scene, bool [P, L]."""
    return self.inside >= np.float32(self.design.min_inside)

  def tables(self) -> dict[str, str]:
    """Returns the CSV tables of the published data sets, `{file name: text}`.

    metadata.csv has a row for each visible scene, sorted by image id. The other tables number the
    backgrounds and the classes: foreground_classes.csv with ImageNet's numbers,
    foreground_classes_metadata_indices.csv from 0 in the order of the cutouts.
    """
    # the level and the pair of each visible scene, sorted by level and thereby by image id
    level, pair = np.nonzero(self.is_visible.T)
    cutouts = [self.cutouts[index] for index in self.objects[pair]]
    design, side = self.design, np.full(len(pair), self.design.side)
    columns = {
      'image_id': design.image_ids(len(self.objects))[pair, level],
      'x_coord': design.x[level],
      'y_coord': design.y[level],
      'area': design.area[level],
      'rotation': design.angle[level],
      'foreground_class': np.array([cutout.class_index for cutout in cutouts]),
      'foreground_instance': np.array([cutout.instance for cutout in cutouts]),
      'background': self.grounds[pair],
      'bg_resolution_width': side,
      'bg_resolution_height': side,
      'pct_inside_image': self.inside[pair, level],
    }
    header = ('int', 'label')
    label_of_class = {c.class_name: c.label for c in self.cutouts}  # in the order of the cutouts
    labels_and_names = ((label, name) for name, label in label_of_class.items())
    return {
      'metadata.csv': metadata_text(columns),
      'backgrounds.csv': csv_text(header, enumerate(path.name for path in self.backgrounds)),
      'foreground_classes.csv': csv_text(header, labels_and_names),
      'foreground_classes_metadata_indices.csv': csv_text(header, enumerate(label_of_class)),
    }


def make_plan(design: Design, folders: Mapping[str, str], seed: int, measure: str) -> ScenePlan:
  """Plans all scenes of a data set from a design and two folders of images.

  All objects and the headers of used backgrounds are read, so that bad files are reported before
  hours of rendering.

  Args:
    design: sizes, angles and positions of objects.
    folders: `{'foregrounds': folder of cut-out objects, 'backgrounds': folder of backgrounds}`.
    seed: seed of the random backgrounds.
    measure: what is meant by an object's area: its bounding 'rectangle' or its 'mask'.

  Raises:
    InputError: a file is invalid, or in no scene enough of the object is visible.
  """
  cutouts = scenes.find_cutouts(folders['foregrounds'], 'foregrounds')
  files = scenes.find_backgrounds(folders['backgrounds'], 'backgrounds')
  drawn = draw_backgrounds(len(cutouts), len(files), seed)  # indices in `files`, [objects, 2]
  for index in np.unique(drawn):
    scenes.check_background(files[index], design.side)
  alphas = [scenes.read_cutout(cutout.path)[..., 3] for cutout in cutouts]  # of RGBA
  sizes = np.array([alpha.shape for alpha in alphas])  # height and width, [objects, 2]
  areas = sizes.prod(axis=1)  # of the bounding rectangles in pixels, [objects]
  if measure == 'mask':
    areas = np.array([designs.num_mask_pixels(alpha) for alpha in alphas])
  inside = scene_views.fractions_inside(design, sizes, areas, design.side)  # [objects, levels]
  num_objects, num_drawn = drawn.shape
  objects = np.arange(num_objects).repeat(num_drawn)  # the object of each pair, [pairs]
  plan = ScenePlan(
    design, cutouts, files, objects, grounds=drawn.ravel(), inside=inside[objects], measure=measure
  )
  if not plan.is_visible.any():
    raise InputError(
      f'no scene of design {design.name!r} has {design.min_inside:g} of its object '
      f'inside; the most is {plan.inside.max():g}. Lower min_inside, or choose '
      'smaller areas or places nearer to the centre.'
    )
  return plan


def pair_examples(plan: ScenePlan, encoding: str, pair: int) -> Iterator[Example]:
  """Yields `(image id, example)` for all visible scenes of one object on one background.

  Args:
    plan: plan of the data set.
    encoding: 'png' or 'jpeg'.
    pair: index of the pair of object and background in `plan`.
  """
  cutout, design = plan.cutouts[plan.objects[pair]], plan.design
  image_ids = design.image_ids(len(plan.objects))[pair]  # of the scene at each level, [L]
  pixels = scenes.read_cutout(cutout.path)
  height, width = pixels.shape[:2]
  # `prepare` is compiled for each size of a cutout, so cutouts are padded to a few sizes of squares
  side = math.ceil(max(height, width) / ROOM) * ROOM
  factors = np.stack([*design.factors.values()])  # area, angle, x and y of the L levels, [4, L]
  prepare, compose = composer(factors.tobytes(), design.side, plan.measure)
  unprepared_row = {
    'image': scenes.read_background(plan.backgrounds[plan.grounds[pair]], design.side),
    'foreground': np.pad(pixels, ((0, side - height), (0, side - width), (0, 0))),
    'foreground_size': np.array([height, width], np.int32),
  }
  row = prepare(unprepared_row)
  levels = np.flatnonzero(plan.is_visible[pair])
  with futures.ThreadPoolExecutor() as pool:  # compressing is most of the work
    for chunk in np.split(levels, range(CHUNK, len(levels), CHUNK)):
      # the last chunk is filled up with repeats, as `compose` is compiled for `CHUNK` levels
      images = np.asarray(compose(row, np.resize(chunk, CHUNK)))[: len(chunk)]
      files = pool.map(functools.partial(encode, encoding=encoding), images)
      for level, file in zip(chunk, files, strict=True):
        scene = {
          'image': io.BytesIO(file),
          'image_id': int(image_ids[level]),
          'label': cutout.label,
          'object': int(plan.objects[pair]),
          'background': int(plan.grounds[pair]),
          **dict(zip(LEVEL, factors[:, level].astype(np.float32), strict=True)),
          'fraction_inside': plan.inside[pair, level],
        }
        yield int(image_ids[level]), scene


@functools.lru_cache(maxsize=8)
def composer(factors: bytes, side: int, measure: str) -> tuple[Prepare, Compose]:
  """Returns two compiled functions that render an object on a background at several levels.

  A level is an area, an angle and a position of the object. Scenes equal the scenes of the study
  `si_score`.

  Args:
    factors: area, angle, x and y of L levels, as the bytes of a float64 array [4, L] (bytes are
      hashable for the cache). The angle is in degrees, the others are fractions of the scene.
    side: side of the scene in pixels.
    measure: what is meant by an object's area: its bounding 'rectangle' or its 'mask'.

  Returns:
    Two functions, `prepare` and `compose`.

    * `prepare(images)` preprocesses an object and a background once. `images` has the entries
      'image', the background, uint8 [side, side, 3]; 'foreground', the object padded to a square,
      uint8 [F, F, 4]; and 'foreground_size', height and width of the object, int32 [2].
    * `compose(prepared, levels)` returns B scenes, uint8 [B, side, side, 3], from the result of
      `prepare` and the indices of B levels, int [B].
  """
  area, angle, x, y = np.frombuffer(factors).reshape(4, -1)
  design = Design(name='', side=side, min_inside=0.0, area=area, angle=angle, x=x, y=y)
  show, prepare_cutout = scene_views.scene_functions(design, side, measure)
  parameters = jax.tree.map(jnp.asarray, scene_views.level_parameters(design))  # {name: [L]}

  @jax.jit
  def prepare(row: Row) -> Row:
    """Converts a background to floats in [0, 1] and preprocesses the object."""
    return prepare_cutout({**row, 'image': row['image'].astype(jnp.float32) / 255})

  @jax.jit
  def compose(row: Row, levels: jax.Array) -> jax.Array:
    """Renders an object on a background at B combinations of area, angle and position.

    Args:
      row: background and object from `prepare`.
      levels: int [B], indices of the combinations in the design.

    Returns:
      uint8 [B, side, side, 3].
    """
    key = jax.random.key(0)  # `show` takes a key but does not use it: scenes are not random
    views = {name: values[levels] for name, values in parameters.items()}
    images = jax.lax.map(lambda view: show(key, row, view), views)  # one after another
    return jnp.round(images * 255).astype(jnp.uint8)

  return prepare, compose


def encode(image: np.ndarray, encoding: str) -> bytes:
  """Encodes an image, uint8 [H, W, 3], as a 'png' or 'jpeg' file."""
  out = io.BytesIO()
  Image.fromarray(image).save(out, encoding.upper(), **OPTIONS[encoding])
  return out.getvalue()
