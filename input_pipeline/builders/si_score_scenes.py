"""TFDS data set `si_score_scenes`: cut-out objects on backgrounds, made here from two folders.

```python
config = ScenesConfig('size', foregrounds='cutouts', backgrounds='backgrounds')
tfds.builder('si_score_scenes', config=config).download_and_prepare()
tfds.load('si_score_scenes/size', split='test')  # from now on, anywhere
```

Configs are size, location and rotation, the published designs, and any other name with a design of
one's own. The tables of the released sets, metadata.csv first, lie beside the data.
"""

import dataclasses
import functools
import hashlib
import io
import itertools
from collections.abc import Callable, Iterator, Mapping
from concurrent import futures
from pathlib import Path
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import tensorflow_datasets as tfds
from PIL import Image

from input_pipeline.builders.made_of import ENDS, Feature, MadeOf, digest_of_files
from input_pipeline.sources.scenes import (
  Cutout,
  check_background,
  find_backgrounds,
  find_cutouts,
  read_background,
  read_cutout,
)
from input_pipeline.sources.si_score import csv_text, metadata_text
from robustness.core.errors import InputError, nearest
from robustness.core.paths import expanded
from robustness.core.settings import choice
from robustness.models.imagenet_names import WNIDS
from robustness.scenes import designs
from robustness.scenes import views as scene_views
from robustness.scenes.designs import LEVEL, Design, draw_backgrounds

CHUNK = 8  # scenes that are composed at once
ROOM = 256  # cutouts are padded to a multiple of this, so that few sizes are compiled
ENCODINGS = ('png', 'jpeg')
MEASURES = ('rectangle', 'mask')
DESCRIPTION = """\
Cut-out objects on backgrounds, composed by size, location and angle (Yung et al. 2021), to measure
how a classifier's accuracy depends on each of these factors alone. An example is a scene: its
`image`, the object's `label` in ImageNet's order, the released generator's number `image_id`, the
factors `area` (share of the scene), `angle` (degrees), `x` and `y` (of the object's centre, shares
of the scene), the numbers of `object` and `background`, and `fraction_inside`, the share of the
object's rectangle inside the scene. It is made of two folders of one's own; the tables of the
released sets lie beside the data.
"""
CITATION = """\
@misc{yung2021siscore,
  title={{SI-Score}: An image dataset for fine-grained analysis of robustness to object location,
    rotation and size},
  author={Yung, Jessica and Romijnders, Rob and Kolesnikov, Alexander and Beyer, Lucas and
    Djolonga, Josip and Houlsby, Neil and Gelly, Sylvain and Lucic, Mario and Zhai, Xiaohua},
  year={2021},
  eprint={2104.04191},
  archivePrefix={arXiv}
}"""
Example = tuple[int, dict[str, object]]
Row = dict[str, jax.Array]
Prepare = Callable[[Mapping[str, np.ndarray]], Row]
Compose = Callable[[Row, np.ndarray], jax.Array]


@dataclasses.dataclass(eq=False)
class ScenesConfig(tfds.core.BuilderConfig):
  """Which scenes are made, and of what.

  Attributes:
    name: 'size', 'location', 'rotation', or the name of a design of one's own.
    foregrounds: folder of class folders of cutouts with alpha; '' is MANUAL_DIR/foregrounds.
    backgrounds: folder of backgrounds; '' is MANUAL_DIR/backgrounds.
    design: the levels; None takes the published design of that name. A design also says which
      share of an object must be inside: dataclasses.replace(published('location'), min_inside=0).
    backgrounds_per_object: drawn for each object without replacement.
    seed: of the draw.
    measure: whether an area is that of the object's 'rectangle' (published) or of its 'mask'.
    encoding: 'png', lossless, or 'jpeg', as published.
    jpeg_quality: 75 is what the released sets were saved with.
    beam: prepare with Apache Beam (`pip install '.[beam]'`), a pair at a time; workers need the
      folders.
  """

  name: str = 'size'
  foregrounds: str = ''
  backgrounds: str = ''
  design: Design | None = None
  backgrounds_per_object: int = designs.BACKGROUNDS_PER_OBJECT
  seed: int = 0
  measure: str = 'rectangle'
  encoding: str = 'png'
  jpeg_quality: int = 75
  beam: bool = False

  def __post_init__(self) -> None:
    choice('measure', self.measure, MEASURES)
    choice('encoding', self.encoding, ENCODINGS)

  def levels(self) -> Design:
    """Returns the design."""
    return self.design or designs.published(self.name)


def _parse_name(name: str) -> ScenesConfig:
  """Returns the config of a published design."""
  if name not in designs.FACTORS:
    raise InputError(
      f'si_score_scenes has no config {name!r}, and nothing is prepared under that '
      f'name; {nearest(name, designs.FACTORS)}, or a design of your own: '
      "config=ScenesConfig('...', design=...)."
    )
  return ScenesConfig(name=name, description=f'The published design of objects by {name}.')


class SiScoreScenes(MadeOf, tfds.core.GeneratorBasedBuilder):
  """Scenes of cut-out objects on backgrounds by size, location and angle (Yung et al. 2021)."""

  MANUAL_DOWNLOAD_INSTRUCTIONS = (
    'Put cutouts into foregrounds/<class>/*.png and pictures into backgrounds/, or name both '
    'folders in ScenesConfig(foregrounds=..., backgrounds=...).'
  )
  CONFIG = ScenesConfig
  PARSE_NAME = staticmethod(_parse_name)
  BUILDER_CONFIGS: ClassVar[list[ScenesConfig]] = [*map(_parse_name, designs.FACTORS)]
  DESCRIPTION, CITATION = DESCRIPTION, CITATION
  HOMEPAGE = 'https://arxiv.org/abs/2104.04191'

  def features(self) -> dict[str, Feature]:
    """See `MadeOf`; a stored design that is known by its name only has images of any size."""
    config = self.builder_config
    side = config.levels().side if config.design or config.name in designs.FACTORS else None
    number, share = (tfds.features.Scalar(dtype) for dtype in (np.int64, np.float32))
    return {
      'image': tfds.features.Image(shape=(side, side, 3), encoding_format=config.encoding),
      'label': tfds.features.ClassLabel(names=list(WNIDS)),
      'image_id': number,
      **dict.fromkeys(LEVEL, share),
      'object': number,
      'background': number,
      'fraction_inside': share,
    }

  def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict[str, object]:
    config = self.builder_config
    named = config.foregrounds and config.backgrounds
    manual = '' if named else str(dl_manager.manual_dir)
    plan = make_plan(
      config.levels(),
      **self._folders(manual),
      backgrounds_per_object=config.backgrounds_per_object,
      seed=config.seed,
      measure=config.measure,
    )
    for name, text in plan.tables().items():
      (self.data_path / name).write_text(text)
    self.info.metadata.update(
      {
        'design': config.levels().name,
        'side': plan.design.side,
        'min_inside': plan.design.min_inside,
        'measure': plan.measure,
        'seed': config.seed,
        'backgrounds_per_object': config.backgrounds_per_object,
        'pairs': plan.num_pairs,
        'levels': len(plan.design),
        'full_cross': plan.design.num_scenes(plan.num_pairs),
        'encoding': config.encoding,
        'objects': [f'{c.class_name}/{c.path.name}' for c in plan.cutouts],
        'backgrounds': [path.name for path in plan.backgrounds],
      }
    )
    self.note_inputs(manual)
    examples = functools.partial(pair_examples, plan, config.encoding, config.jpeg_quality)
    return {'test': self._generate_examples(range(plan.num_pairs), examples)}

  def settings(self) -> dict[str, object]:
    """See `MadeOf`; the design by its name and a digest of its levels."""
    config, design = self.builder_config, self.builder_config.levels()
    levels = np.stack([vars(design)[name] for name in LEVEL]).astype('<f8')
    plain = ('backgrounds_per_object', 'seed', 'measure', 'encoding')
    return {
      'design': design.name,
      'levels_sha256': hashlib.sha256(levels.tobytes()).hexdigest(),
      'side': design.side,
      'min_inside': design.min_inside,
      **{name: vars(config)[name] for name in plain},
      'jpeg_quality': config.jpeg_quality if config.encoding == 'jpeg' else 0,
    }

  def input_digests(self, manual_dir: str) -> dict[str, str]:
    """See `MadeOf`: of the cutouts and of the backgrounds."""
    folders = self._folders(manual_dir)
    files = {
      'foregrounds': [c.path for c in find_cutouts(folders['foregrounds'], 'foregrounds')],
      'backgrounds': find_backgrounds(folders['backgrounds'], 'backgrounds'),
    }
    return {
      name: digest_of_files(expanded(folder), files[name], ENDS) for name, folder in folders.items()
    }

  def _folders(self, manual_dir: str) -> dict[str, str]:
    """Returns the folders of cutouts and of backgrounds; where not named, those in manual_dir."""
    config = self.builder_config
    named = {'foregrounds': config.foregrounds, 'backgrounds': config.backgrounds}
    return {name: folder or str(Path(manual_dir) / name) for name, folder in named.items()}


@dataclasses.dataclass(frozen=True)
class Plan:
  """Which scenes a data set holds, before any is composed: P pairs at L levels.

  Numbers of images and the columns of metadata.csv are the released generator's.

  Attributes:
    design: the levels.
    cutouts: the objects.
    backgrounds: all files of the folder.
    objects, grounds: int64 [P], the pair's places in these.
    inside: float32 [P, L], the share of the object's rectangle on the canvas.
    measure: what an area is of; see `robustness.scenes.compose`.
  """

  design: Design
  cutouts: tuple[Cutout, ...]
  backgrounds: tuple[Path, ...]
  objects: np.ndarray
  grounds: np.ndarray
  inside: np.ndarray
  measure: str

  @property
  def num_pairs(self) -> int:
    """How many pairs there are."""
    return len(self.objects)

  @property
  def image_ids(self) -> np.ndarray:
    """The number of every scene of the full cross, int64 [P, L]."""
    return self.design.image_ids(self.num_pairs)

  @property
  def kept(self) -> np.ndarray:
    """Which scenes have enough of the object inside, bool [P, L]."""
    return self.inside >= np.float32(self.design.min_inside)

  def columns(self) -> dict[str, np.ndarray]:
    """Returns the columns of metadata.csv of the scenes that are kept, by image_id."""
    level, pair = np.nonzero(self.kept.T)
    cutouts = [self.cutouts[index] for index in self.objects[pair]]
    design, side = self.design, np.full(len(pair), self.design.side)
    return {
      'image_id': self.image_ids[pair, level],
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

  def tables(self) -> dict[str, str]:
    """Returns {file name: text} of the tables that the released generator writes."""
    header = ('int', 'label')
    classes = list(dict.fromkeys((c.class_name, c.label) for c in self.cutouts))
    return {
      'metadata.csv': metadata_text(self.columns()),
      'backgrounds.csv': csv_text(header, enumerate(path.name for path in self.backgrounds)),
      'foreground_classes.csv': csv_text(header, ((label, name) for name, label in classes)),
      'foreground_classes_metadata_indices.csv': csv_text(
        header, enumerate(name for name, _ in classes)
      ),
    }


def make_plan(
  design: Design,
  foregrounds: str,
  backgrounds: str,
  backgrounds_per_object: int,
  seed: int,
  measure: str,
) -> Plan:
  """Returns the plan of a design with the files of two folders.

  Every cutout is read, and the header of every background that was drawn, so that a bad file is
  named before hours of composing.
  """
  cutouts = find_cutouts(foregrounds, 'foregrounds')
  files = find_backgrounds(backgrounds, 'backgrounds')
  drawn = draw_backgrounds(len(cutouts), len(files), backgrounds_per_object, seed)
  for index in np.unique(drawn):
    check_background(files[index], design.side)
  alphas = [read_cutout(cutout.path)[..., 3] for cutout in cutouts]
  sizes = np.array([alpha.shape for alpha in alphas])
  of_mask = measure == 'mask'
  pixels = [int((alpha >= 128).sum()) if of_mask else alpha.size for alpha in alphas]
  inside = scene_views.fractions_inside(design, sizes, np.array(pixels), design.side)
  objects = np.arange(len(cutouts)).repeat(backgrounds_per_object)
  plan = Plan(design, cutouts, files, objects, drawn.ravel(), inside[objects], measure)
  if not plan.kept.any():
    raise InputError(
      f'no scene of design {design.name!r} has {design.min_inside:g} of its object '
      f'inside; the most is {plan.inside.max():g}. Lower min_inside, or choose '
      'smaller areas or places nearer to the centre.'
    )
  return plan


def pair_examples(plan: Plan, encoding: str, jpeg_quality: int, pair: int) -> Iterator[Example]:
  """Yields (number, example) of the scenes of one pair that are kept."""
  cutout, design = plan.cutouts[plan.objects[pair]], plan.design
  numbers = plan.image_ids[pair]
  scenes = compose_levels(plan, pair, np.flatnonzero(plan.kept[pair]))
  with futures.ThreadPoolExecutor() as pool:  # compressing is most of the work
    while chunk := list(itertools.islice(scenes, CHUNK)):
      files = pool.map(lambda scene: encode(scene[1], encoding, jpeg_quality), chunk)
      for (level, _), file in zip(chunk, files, strict=True):
        yield (
          int(numbers[level]),
          {
            'image': io.BytesIO(file),
            'image_id': int(numbers[level]),
            'label': cutout.label,
            'object': int(plan.objects[pair]),
            'background': int(plan.grounds[pair]),
            **{name: np.float32(vars(design)[name][level]) for name in LEVEL},
            'fraction_inside': plan.inside[pair, level],
          },
        )


def compose_levels(plan: Plan, pair: int, levels: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
  """Yields (level, scene uint8 [side, side, 3]) of a pair, composed in chunks."""
  design = plan.design
  pixels = read_cutout(plan.cutouts[plan.objects[pair]].path)
  size = np.array(pixels.shape[:2], np.int32)
  room = -(-max(size) // ROOM) * ROOM
  padded = np.pad(pixels, ((0, room - size[0]), (0, room - size[1]), (0, 0)))
  background = read_background(plan.backgrounds[plan.grounds[pair]], design.side)
  factors = np.stack([vars(design)[name] for name in LEVEL])
  prepare, compose = composer(factors.tobytes(), design.side, plan.measure)
  row = prepare({'image': background, 'foreground': padded, 'foreground_size': size})
  for first in range(0, len(levels), CHUNK):
    chunk = levels[first : first + CHUNK]
    repeated = np.resize(chunk, CHUNK)  # the last chunk keeps the compiled shape
    yield from zip(chunk.tolist(), np.asarray(compose(row, repeated)), strict=False)


@functools.lru_cache(maxsize=8)
def composer(factors: bytes, side: int, measure: str) -> tuple[Prepare, Compose]:
  """Returns the compiled functions that compose scenes as the study `si_score` shows them.

  They are `prepare(row) -> row`, done once for a pair, and `compose(row, levels int [B]) -> uint8
  [B, side, side, 3]`. A row has `image` uint8 [side, side, 3], `foreground` uint8 [F, F, 4] and
  `foreground_size` int32 [2]. `factors` are the bytes of area, angle, x and y, float64 [4, L].
  """
  area, angle, x, y = np.frombuffer(factors).reshape(4, -1)
  design = Design('', side, 0.0, area, angle, x, y)
  show, prepare = scene_views.shown(design, side, measure)
  views = {name: jnp.asarray(values) for name, values in scene_views.parameters(design).items()}

  @jax.jit
  def prepared(row: Row) -> Row:
    scaled = {**row, 'image': row['image'].astype(jnp.float32) / 255}
    return prepare(scaled)

  @jax.jit
  def compose(row: Row, levels: jax.Array) -> jax.Array:
    key = jax.random.key(0)  # nothing is drawn
    chosen = {name: values[levels] for name, values in views.items()}
    images = jax.lax.map(lambda view: show(key, row, view), chosen)
    return jnp.round(images * 255).astype(jnp.uint8)

  return prepared, compose


def encode(image: np.ndarray, encoding: str, jpeg_quality: int) -> bytes:
  """Returns a scene's file: PNG, or JPEG of a quality."""
  out = io.BytesIO()
  options = {'compress_level': 1} if encoding == 'png' else {'quality': jpeg_quality}
  Image.fromarray(image).save(out, encoding.upper(), **options)
  return out.getvalue()
