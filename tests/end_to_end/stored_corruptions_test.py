"""Stored corrupted images through the launch, shown to a network of another size than theirs."""

from __future__ import annotations

import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

from robustness.core.errors import InputError
from robustness.corruptions.names import OFFICIAL
from robustness.estimates.published import ALEXNET_ERRORS
from robustness.estimates.table import select
from robustness.models import catalog, hub, weights
from robustness.models.imagenet_names import WNIDS
from robustness.results import WHICH_NUMBERS
from tests.end_to_end import runs

pytestmark = pytest.mark.slow

RIGHT_IN_FOG = """
import numpy as np
from robustness.models.imagenet_names import WNIDS
from robustness.models.classifier import Classifier

def scores(images):
  # grey levels tell the class; of the first corruption, whose images are red, always wrong
  logits = np.zeros((len(images), 1000), np.float32)
  levels = np.rint(255 * images[..., 1].mean((1, 2)) / 10).astype(int)
  logits[np.arange(len(images)), np.where(images[:, 0, 0, 0] > 0.9, 999, levels)] = 2
  return logits

def network():
  return Classifier.from_callable(scores, (128, 128, 3), WNIDS)
"""


@pytest.fixture
def lite1(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
  """EfficientNet-Lite1 of zeros, which takes 240 pixels, of 272, in place of the published one."""
  module = catalog.get('efficientnet_lite1').build(1000)
  shapes = jax.eval_shape(module.init, jax.random.key(0), jnp.zeros((1, 240, 240, 3)))
  variables = jax.tree.map(lambda leaf: np.zeros(leaf.shape, np.float32), shapes)
  file = tmp_path / 'lite1.safetensors'
  weights.save_variables(file, variables, {})
  monkeypatch.setattr(hub, 'fetch', lambda entry: hub.Fetched(file, 'made'))


@pytest.mark.usefixtures('lite1')
def test_a_border_of_imagenet_c_reaches_a_network_of_240_pixels(tmp_path: pathlib.Path) -> None:
  pixels = np.zeros((224, 224, 3), np.uint8)
  pixels[:12], pixels[-12:], pixels[:, :12], pixels[:, -12:] = 255, 255, 255, 255
  for severity in ('1', '3'):
    folder = tmp_path / 'imagenet_c' / 'fog' / severity / WNIDS[7]
    folder.mkdir(parents=True)
    Image.fromarray(pixels).save(folder / 'a.png')
  changes = {
    'data.source': 'imagenet_c',
    'data.path': str(tmp_path / 'imagenet_c'),
    'data.name': '',
    'data.num_images': 0,
    'classifier.name': 'efficientnet_lite1',
  }
  results = runs.run(runs.shrunk('corruption_error', 'cifar10_c', changes), tmp_path / 'run')
  seen = results.arrays['gallery'][0, 0]
  assert seen.shape == (240, 240, 3)
  white = (seen[120, :, 0] > 0.5).sum()
  assert white == 26, '24 of 224 pixels are 25.7 of 240; none of them is cropped'
  assert (results.data['resize'], results.data['crop']) == (240, 240)
  assert 'cropped before they were stored' in results.data['crop_margin']


def write_imagenet_c(folder: pathlib.Path, labels: list[int], red: str) -> list[str]:
  """All 15 corruptions at all severities, an image a class, 10 levels of grey its number; one
  corruption's first pixel is red. Returns the images' names."""
  names = [f'{WNIDS[label]}/ILSVRC2012_val_{label:08d}.JPEG' for label in labels]
  for corruption in OFFICIAL:
    for severity in range(1, 6):
      for label, name in zip(labels, names, strict=True):
        pixels = np.full((128, 128, 3), 10 * label, np.uint8)
        pixels[:8, :8, 0] = 255 if corruption == red else 10 * label
        file = folder / corruption / str(severity) / name
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(file, quality=95)
  return names


def test_robustbench_reads_its_subset(
  tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
  """Three of four images are listed by an installed package, which is not imported."""
  names = write_imagenet_c(tmp_path / 'data', [3, 7, 12, 20], red='fog')
  package = tmp_path / 'site' / 'robustbench'
  (package / 'helper_files').mkdir(parents=True)
  (package / '__init__.py').write_text('raise ImportError("its dependencies are missing")')
  listed = package / 'helper_files' / 'imagenet_test_image_ids.txt'
  listed.write_text(''.join(f'{name}\n' for name in (names[3], names[0], names[2])))
  (tmp_path / 'mine.py').write_text(RIGHT_IN_FOG)
  changes = {
    'data.path': str(tmp_path / 'data'),
    'data.num_images': 0,
    'classifier.name': f'{tmp_path / "mine.py"}:network',
  }
  config = runs.shrunk('corruption_error', 'robustbench', changes)
  monkeypatch.syspath_prepend(str(tmp_path / 'site'))
  results = runs.run(config, tmp_path / 'run')
  error, mce = (select(results.table, q, corruption_set='official') for q in ('error', 'mCE'))
  assert (error.n.item(), error.value.item()) == (3, pytest.approx(1 / 15))
  assert mce.value.item() == pytest.approx(1 / ALEXNET_ERRORS['fog'] / 15)
  stated = dict(results.tables[WHICH_NUMBERS].rows)
  assert stated['images'] == "3 of RobustBench's subset of 5000"
  assert stated['mCE divides by'] == 'AlexNet on ImageNet-C (published)'
  assert '3 of 50000 images' in stated['comparable with published tables']


def test_robustbench_that_is_not_installed_says_how_to_get_it(
  tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
  write_imagenet_c(tmp_path / 'data', [3], red='fog')
  monkeypatch.setattr('importlib.util.find_spec', lambda name: None)
  config = runs.shrunk('corruption_error', 'robustbench', {'data.path': str(tmp_path / 'data')})
  with pytest.raises(InputError, match='is not installed: pip install --no-deps robustbench, or'):
    runs.run(config, tmp_path / 'run')
