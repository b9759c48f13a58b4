"""configs/finetune_video.py, made small: from imported weights to new classes, split by clip."""

from __future__ import annotations

import importlib
import json
import pathlib

import jax
import numpy as np
import pytest
from PIL import Image

from robustness.estimates.table import select
from robustness.models import catalog, weights
from robustness.training import load_variables
from robustness.video import metadata
from robustness.video.building import build
from tests.end_to_end import runs
from tests.table_rows import estimate

pytestmark = pytest.mark.slow

SIDE = 28


@pytest.fixture
def clips(tmp_path: pathlib.Path) -> pathlib.Path:
  """Six clips of 8 frames, three reddish and three bluish, and sets for training and testing."""
  generator = np.random.default_rng(0)
  for clip in range(6):
    folder = tmp_path / f'frames/clip{clip}'
    folder.mkdir(parents=True)
    for number in range(8):
      pixels = generator.integers(0, 80, (SIDE, SIDE, 3)).astype(np.uint8)
      pixels[..., 2 * (clip % 2)] += 120
      Image.fromarray(pixels).save(folder / f'{number}.png')
  for split, members in (('train', range(4)), ('test', range(4, 6))):
    labels = {f'clip{clip}': [clip % 2] for clip in members}
    built = build(tmp_path / 'frames', labels, tmp_path / 'frames', ('red', 'blue'), k=8)
    metadata.write(built.sets, tmp_path / 'sets' / split)
  return tmp_path


def test_imported_weights_learn_new_classes(clips: pathlib.Path) -> None:
  network = catalog.get('small_cnn').build(10)
  drawn = jax.jit(network.init)(jax.random.key(0), np.zeros((1, SIDE, SIDE, 3), np.float32))
  weights.save_variables(clips / 'start.safetensors', jax.tree.map(np.asarray, drawn), {})
  config = runs.shrunk(
    'finetune_video',
    changes={
      'classifier.name': 'small_cnn',
      'classifier.initial_weights': str(clips / 'start.safetensors'),
      'data.num_images': 0,
      'data.path': str(clips / 'frames'),
      'data.metadata': str(clips / 'sets'),
      'study.top_k': 1,
      'training.steps': 12,
      'training.checkpoint_every_steps': 6,
      'training.learning_rate': 0.02,
    },
  )
  results = runs.run(config, clips / 'run')
  row = estimate(results.table, *results.labels, 'top1_accuracy')
  assert (row.value, row.n) == (1.0, 16), 'two clips of eight frames'
  assert results.classifier['initial_weights'] == 'start.safetensors'
  assert results.data['class_names'] == ['red', 'blue']
  lines = [json.loads(line) for line in (clips / 'run/log.jsonl').read_text().splitlines()]
  rates = [line['train/learning_rate'] for line in lines if 'train/learning_rate' in line]
  assert len(rates) == 12 and rates[0] == pytest.approx(0.02)
  folder = clips / 'run/checkpoints/small_cnn'
  trained, facts = load_variables(folder)
  assert facts['training']['schedule'] == 'plateau'
  again = runs.run(
    runs.shrunk(
      'video_pm_k',
      'frames',
      {
        'classifier.name': 'small_cnn',
        'classifier.weights': str(folder),
        'data.num_images': 0,
        'classifier.label_space': '',
        'data.path': str(clips / 'frames'),
        'data.metadata': str(clips / 'sets'),
      },
    ),
    clips / 'again',
  )
  worst = select(again.table, 'accuracy_pm_k', k=...)
  assert 4 <= worst.k.max() <= 7, 'the farthest of eight frames'
  assert (worst.value == 1).all() and (worst.n == 2).all(), 'anchors'
  assert trained['params']['head']['dense']['kernel'].shape[-1] == 2


@pytest.mark.parametrize('variant', ['efficientnet_lite0', 'resnet50', 'resnet152', 'vgg16'])
def test_variants_have_the_appendix_s_hyperparameters(variant: str) -> None:
  config = importlib.import_module('configs.finetune_video').get_config(variant)
  training = config.training
  assert (training.batch_size, training.epochs, training.schedule) == (32, 10.0, 'plateau')
  assert training.learning_rate == (1e-5 if variant == 'vgg16' else 1e-4)
  assert config.classifier.train and config.classifier.initial_weights.endswith(
    {'efficientnet_lite0': 'model', 'resnet152': 'a1_in1k'}.get(variant, 'IMAGENET1K_V1')
  )
