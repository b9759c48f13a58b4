"""TFDS data set `si_score_scenes`: cut-out objects on backgrounds, made here from two folders.

```python
import input_pipeline.builders
import tensorflow_datasets as tfds
from input_pipeline.builders.si_score_scenes import ScenesConfig

config = ScenesConfig('size', foregrounds='cutouts', backgrounds='backgrounds')
tfds.builder('si_score_scenes', config=config).download_and_prepare()
tfds.load('si_score_scenes/size', split='test')  # from now on, anywhere
```

Configs are size, location and rotation, the published designs, and any other name with a design of
one's own. A scene is an example: `image`, `label` (ImageNet's order), `image_id` (the released
generator's numbering), `area`, `angle`, `x`, `y`, `object`, `background`, `fraction_inside`. The
tables of the released sets, metadata.csv first, lie beside the data.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import io
import itertools
from collections.abc import Callable, Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import tensorflow_datasets as tfds
from PIL import Image

from input_pipeline.builders import scene_plan
from input_pipeline.builders.made_of import ENDS, MadeOf, digest_of_files
from input_pipeline.builders.scene_plan import Plan
from input_pipeline.scene_files import find_backgrounds, find_cutouts, read_background, read_cutout
from robustness.core.errors import InputError, nearest
from robustness.core.paths import expanded
from robustness.core.settings import choice
from robustness.models.imagenet_names import WNIDS
from robustness.scenes import designs
from robustness.scenes import views as scene_views
from robustness.scenes.designs import Design

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
Example = tuple[int, dict[str, Any]]


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

  def side(self) -> int | None:
    """Returns the side of the canvas; None where a stored design is known by its name only."""
    known = self.design or self.name in designs.FACTORS
    return self.levels().side if known else None

  def levels(self) -> Design:
    """Returns the design."""
    return self.design or designs.published(self.name)


class SiScoreScenes(MadeOf, tfds.core.GeneratorBasedBuilder):
  """Scenes of cut-out objects on backgrounds by size, location and angle (Yung et al. 2021)."""

  VERSION = tfds.core.Version('1.0.0')
  RELEASE_NOTES = {'1.0.0': 'First release.'}
  MANUAL_DOWNLOAD_INSTRUCTIONS = (
    'Put cutouts into foregrounds/<class>/*.png and pictures into backgrounds/, or name both '
    'folders in ScenesConfig(foregrounds=..., backgrounds=...).'
  )

  BUILDER_CONFIGS = [
    ScenesConfig(name=factor, description=f'The published design of objects by {factor}.')
    for factor in designs.FACTORS
  ]

  def _create_builder_config(self, builder_config: Any, version: Any) -> ScenesConfig:
    """Returns a config as it is, also one that gives a published design its folders, or by name."""
    del version
    if isinstance(builder_config, ScenesConfig):
      return builder_config
    if builder_config and builder_config not in designs.FACTORS:
      raise InputError(
        f'si_score_scenes has no config {builder_config!r}, and nothing is prepared under that '
        f'name; {nearest(builder_config, designs.FACTORS)}, or a design of your own: '
        "config=ScenesConfig('...', design=...)."
      )
    return ScenesConfig(name=builder_config or 'size')

  def _info(self) -> tfds.core.DatasetInfo:
    side = self.builder_config.side()
    number, share = (tfds.features.Scalar(dtype) for dtype in (np.int64, np.float32))
    return tfds.core.DatasetInfo(
      builder=self,
      description=DESCRIPTION,
      features=tfds.features.FeaturesDict(
        {
          'image': tfds.features.Image(
            shape=(side, side, 3), encoding_format=self.builder_config.encoding
          ),
          'label': tfds.features.ClassLabel(names=list(WNIDS)),
          'image_id': number,
          **dict.fromkeys(('area', 'angle', 'x', 'y'), share),
          'object': number,
          'background': number,
          'fraction_inside': share,
        }
      ),
      supervised_keys=('image', 'label'),
      metadata=tfds.core.MetadataDict(),
      homepage='https://arxiv.org/abs/2104.04191',
      citation=CITATION,
    )

  def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict[str, Any]:
    config = self.builder_config
    named = config.foregrounds and config.backgrounds
    manual = '' if named else str(dl_manager.manual_dir)
    plan = scene_plan.make(
      config.levels(),
      **_folders(config, manual),
      backgrounds_per_object=config.backgrounds_per_object,
      seed=config.seed,
      measure=config.measure,
    )
    for name, text in plan.tables().items():
      (self.data_path / name).write_text(text)
    self.info.metadata.update(_metadata(config, plan))
    self.note_inputs(manual)
    return {'test': self._generate_examples(plan)}

  def settings(self) -> dict[str, Any]:
    """See `MadeOf`; the design by its name and a digest of its levels."""
    config, design = self.builder_config, self.builder_config.levels()
    levels = np.stack([design.area, design.angle, design.x, design.y]).astype('<f8')
    plain = ('backgrounds_per_object', 'seed', 'measure', 'encoding')
    return {
      'design': design.name,
      'levels_sha256': hashlib.sha256(levels.tobytes()).hexdigest(),
      'side': design.side,
      'min_inside': design.min_inside,
      **{name: getattr(config, name) for name in plain},
      'jpeg_quality': config.jpeg_quality if config.encoding == 'jpeg' else 0,
    }

  def input_digests(self, manual_dir: str) -> dict[str, str]:
    """See `MadeOf`: of the cutouts and of the backgrounds."""
    folders = _folders(self.builder_config, manual_dir)
    files = {
      'foregrounds': [c.path for c in find_cutouts(folders['foregrounds'], 'foregrounds')],
      'backgrounds': find_backgrounds(folders['backgrounds'], 'backgrounds'),
    }
    return {
      name: digest_of_files(expanded(folder), files[name], ENDS) for name, folder in folders.items()
    }

  def _generate_examples(self, plan: Plan) -> Any:
    """Returns the examples: an iterator, or with `beam` a transform over pairs."""
    config = self.builder_config
    examples = functools.partial(pair_examples, plan, config.encoding, config.jpeg_quality)
    if not config.beam:
      return (example for pair in range(plan.num_pairs) for example in examples(pair))
    beam = tfds.core.lazy_imports.apache_beam
    return beam.Create(range(plan.num_pairs)) | beam.Reshuffle() | beam.FlatMap(examples)


def _folders(config: ScenesConfig, manual_dir: str) -> dict[str, str]:
  """Returns the folders of cutouts and of backgrounds; where not named, those in manual_dir."""
  return {
    name: named or str(Path(manual_dir) / name)
    for name, named in (('foregrounds', config.foregrounds), ('backgrounds', config.backgrounds))
  }


def _metadata(config: ScenesConfig, plan: Plan) -> dict[str, Any]:
  """Returns what fixes the scenes, in plain values."""
  return {
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


def pair_examples(plan: Plan, encoding: str, jpeg_quality: int, pair: int) -> Iterator[Example]:
  """Yields (number, example) of the scenes of one pair that are kept.

  Args:
    plan: knows all scenes.
    encoding: 'png' or 'jpeg'.
    jpeg_quality: for 'jpeg'.
    pair: which one.
  """
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
            'area': np.float32(design.area[level]),
            'angle': np.float32(design.angle[level]),
            'x': np.float32(design.x[level]),
            'y': np.float32(design.y[level]),
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
  factors = np.stack([design.area, design.angle, design.x, design.y])
  prepare, compose = composer(factors.tobytes(), design.side, plan.measure)
  row = prepare({'image': background, 'foreground': padded, 'foreground_size': size})
  for first in range(0, len(levels), CHUNK):
    chunk = levels[first : first + CHUNK]
    repeated = np.resize(chunk, CHUNK)  # the last chunk keeps the compiled shape
    yield from zip(chunk.tolist(), np.asarray(compose(row, repeated)), strict=False)


@functools.lru_cache(maxsize=8)
def composer(factors: bytes, side: int, measure: str) -> tuple[Callable, Callable]:
  """Returns the compiled functions that compose scenes as the study `si_score` shows them.

  Args:
    factors: area, angle, x and y of all levels, the bytes of float64 [4, L].
    side: of the canvas, pixels.
    measure: what an area is of.

  Returns:
    `prepare(row) -> row`, done once for a pair, and `compose(row, levels int [B]) -> uint8
    [B, side, side, 3]`. A row has `image` uint8 [side, side, 3], `foreground` uint8 [F, F, 4] and
    `foreground_size` int32 [2].
  """
  area, angle, x, y = np.frombuffer(factors).reshape(4, -1)
  design = Design('', side, 0.0, area, angle, x, y)
  show, prepare = scene_views.shown(design, side, measure)
  views = {name: jnp.asarray(values) for name, values in scene_views.parameters(design).items()}

  @jax.jit
  def prepared(row: dict[str, jax.Array]) -> dict[str, jax.Array]:
    scaled = {**row, 'image': row['image'].astype(jnp.float32) / 255}
    return prepare(scaled)

  @jax.jit
  def compose(row: dict[str, jax.Array], levels: jax.Array) -> jax.Array:
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
