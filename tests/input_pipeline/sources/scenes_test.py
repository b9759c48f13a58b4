"""Parts of scenes as rows: from folders, and drawn."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
from PIL import Image

from input_pipeline import DataSettings, load
from input_pipeline.scene_files import read_background, read_cutout
from input_pipeline.sources import drawn_objects
from robustness.core.errors import InputError
from robustness.scenes.classes import RELEASED, imagenet_index

SIZES = {'koala/a.png': (20, 31), 'koala/b.png': (40, 12), 'bagel/a.png': (9, 9)}


def cutout(width: int, height: int) -> Image.Image:
  pixels = np.random.default_rng(width).integers(0, 256, (height, width, 4), np.uint8)
  pixels[..., 3] = 255 * (np.arange(width) > 2)
  return Image.fromarray(pixels)


@pytest.fixture
def folders(tmp_path: pathlib.Path) -> dict[str, str]:
  for name, (width, height) in SIZES.items():
    path = tmp_path / 'objects' / name
    path.parent.mkdir(parents=True, exist_ok=True)
    cutout(width, height).save(path)
  (tmp_path / 'grounds').mkdir()
  for index in range(4):
    Image.effect_noise((70 + index, 64), 50).save(tmp_path / f'grounds/{index}.png')
  return {'foregrounds': str(tmp_path / 'objects'), 'backgrounds': str(tmp_path / 'grounds')}


def settings(**changes: object) -> DataSettings:
  return DataSettings(**{'source': 'scenes', 'canvas': 48, **changes})  # type: ignore[arg-type]


def test_a_row_is_an_object_and_a_background(folders: dict[str, str]) -> None:
  rows = load(settings(**folders))
  (batch,) = rows.batches(6)
  assert rows.num_examples == 6 and rows.image_shape == (48, 48, 3)
  assert batch['label'].tolist() == [931] * 2 + [105] * 4 == batch['imagenet_class'].tolist()
  assert batch['object'].tolist() == [0, 0, 1, 1, 2, 2]
  assert all(len(set(batch['background'][i : i + 2])) == 2 for i in (0, 2, 4))
  assert batch['foreground_size'].tolist() == [[9, 9]] * 2 + [[31, 20]] * 2 + [[12, 40]] * 2
  assert batch['foreground'].shape == (6, 40, 40, 4)
  files = [pathlib.Path(folders['foregrounds'], name) for name in sorted(SIZES)]
  for row in range(6):
    pixels = read_cutout(files[batch['object'][row]])
    height, width = pixels.shape[:2]
    np.testing.assert_array_equal(batch['foreground'][row, :height, :width], pixels)
    assert not batch['foreground'][row, height:].any()
    assert batch['foreground_pixels'][row] == (pixels[..., 3] == 255).sum()
    ground = pathlib.Path(folders['backgrounds'], f'{batch["background"][row]}.png')
    np.testing.assert_allclose(batch['image'][row] * 255, read_background(ground, 48), atol=1e-3)


def test_pairs_depend_on_their_seed_and_a_subset_keeps_them(folders: dict[str, str]) -> None:
  def pairs(**changes: object) -> list[tuple[int, int]]:
    rows = load(settings(**folders, **changes))
    batch = next(rows.batches(rows.num_examples))
    return list(zip(batch['object'].tolist(), batch['background'].tolist(), strict=True))

  assert pairs() == pairs()
  assert len({tuple(pairs(pair_seed=seed)) for seed in range(4)}) > 1
  assert set(pairs(num_images=3)) < set(pairs())
  assert len(pairs(backgrounds_per_object=4)) == 12


@pytest.mark.parametrize(
  ('changes', 'message'),
  [
    ({'backgrounds_per_object': 5}, 'backgrounds_per_object is 5; it must be at most 4'),
    ({'canvas': 200}, 'the canvas has 200×200'),
    ({'foregrounds': '/nowhere'}, "config.data.foregrounds is '/nowhere'"),
    ({'backgrounds': ''}, "config.data.backgrounds is ''"),
  ],
)
def test_folders_that_do_not_do(
  folders: dict[str, str], changes: dict[str, object], message: str
) -> None:
  with pytest.raises(InputError, match=message):
    load(settings(**{**folders, **changes}))


def test_a_bad_cutout_is_named_when_it_is_read(folders: dict[str, str]) -> None:
  path = pathlib.Path(folders['foregrounds'], 'koala/b.png')
  Image.new('RGBA', (40, 12)).save(path)
  with pytest.raises(InputError, match='koala/b.png.* is transparent everywhere'):
    list(load(settings(**folders)).batches(6))


def test_a_cutout_that_is_too_long_is_refused(folders: dict[str, str]) -> None:
  cutout(400, 20).save(pathlib.Path(folders['foregrounds'], 'koala/b.png'))
  with pytest.raises(InputError, match='koala/b.png is 400×20 .* 16 times'):
    load(settings(**folders))


def test_drawn_objects_are_cutouts_of_known_classes() -> None:
  assert set(drawn_objects.DRAWINGS) - {'golf ball', 'tennis ball', 'traffic light'} <= {*RELEASED}
  for name in drawn_objects.DRAWINGS:
    pixels = drawn_objects.draw(name)
    alpha = pixels[..., 3]
    assert set(np.unique(alpha)) == {0, 255}
    assert all(side.any() for side in (alpha[0], alpha[-1], alpha[:, 0], alpha[:, -1])), 'tight'
    assert max(alpha.shape) > 0.75 * drawn_objects.SIDE
    np.testing.assert_array_equal(pixels, drawn_objects.draw(name))


def test_drawn_scenes_need_no_file() -> None:
  rows = load(DataSettings(source='drawn_scenes', canvas=32))
  (batch,) = rows.batches(rows.num_examples)
  assert rows.num_examples == 2 * len(drawn_objects.DRAWINGS)
  assert set(batch['label'].tolist()) == set(map(imagenet_index, drawn_objects.DRAWINGS))
  assert 'drawn in code' in rows.description['cutouts']
  assert batch['image'].std(axis=(1, 2)).min() > 0.005
