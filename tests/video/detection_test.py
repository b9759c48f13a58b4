"""Tests the command that scores a detector: its results on disk, and bad input in one line."""

import json
import pathlib

import pytest
from PIL import Image

from robustness.cli import detection as command
from robustness.results import Results
from robustness.video import metadata
from tests.cases import cases
from tests.refusals import bad_setting, refused
from tests.table_rows import estimate

SETS = {f'v{v}/5.jpg': [f'v{v}/4.jpg', f'v{v}/6.jpg'] for v in range(3)}
FRAMES = sorted({f for a, n in SETS.items() for f in (a, *n)})


@pytest.fixture
def flags(tmp_path):
  """Flags for three sets; the detector has a wrong class on v0/6 and no box on v1/4."""
  folder = tmp_path
  metadata.write(metadata.from_mappings(SETS, dict.fromkeys(FRAMES, [1])), folder / 'sets')
  images = [{'id': i, 'file_name': f, 'width': 50, 'height': 50} for i, f in enumerate(FRAMES)]
  truth = [{'image_id': i, 'category_id': 1, 'bbox': [5, 5, 20, 20]} for i in range(len(FRAMES))]
  entries = [{**box, 'score': 0.9} for box in truth]
  entries[FRAMES.index('v0/6.jpg')]['category_id'] = 2
  del entries[FRAMES.index('v1/4.jpg')]
  (folder / 'truth.json').write_text(json.dumps({'images': images, 'annotations': truth}))
  (folder / 'found.json').write_text(json.dumps(entries))
  files = {'metadata': 'sets', 'truth': 'truth.json', 'detections': 'found.json', 'out': 'out'}
  return [f'--{name}={folder / file}' for name, file in files.items()]


def test_detection_and_localisation(tmp_path, capsys, flags):
  assert command.main(flags) == 0
  sentence = 'mean average precision on the worst frame within k frames (pm-k) in'
  assert sentence in capsys.readouterr().out
  results = Results.read(tmp_path / 'out')
  assert len(results.table) == 6
  # The worst frames are wrong in two sets for detection, and in one where classes do not count.
  for kind, worst in (('detection', 1 / 3), ('localisation', 2 / 3)):
    for name, value in (('mAP_anchor', 1), ('mAP_pm_k', worst), ('drop_pm_k', 1 - worst)):
      at_k = {} if name == 'mAP_anchor' else {'k': 1}
      row = estimate(results.table, 'detector', name, kind=kind, **at_k)
      assert row.value == pytest.approx(value) and row.n == 3
      if value < 1:  # else all resamples are equal
        assert row.low <= row.value <= row.high
  worst_frames = [['v0/5.jpg', 'v0/6.jpg', 1], ['v1/5.jpg', 'v1/4.jpg', -1]]
  worst_frames.append(['v2/5.jpg', 'v2/5.jpg', 0])
  assert results.tables['detection/worst_frames'].rows == worst_frames
  names = [file.stem for file in (tmp_path / 'out/figures').iterdir()]
  assert names and not [name for name in names if 'pictures' in name], 'no --frames'
  assert 'ean average precision on anchor frames' in (tmp_path / 'out/report.html').read_text()
  assert not [name for name in results.arrays if 'image' in name]


def test_a_run_of_other_settings_or_detections_does_not_replace_results(tmp_path, flags):
  assert command.main(flags) == 0
  before = (tmp_path / 'out/results.json').read_bytes()
  for other in ('--threshold=0.75', '--k=5'):
    message = '(?s)holds a run of another config.*Use another --out'
    refused(message, command.main, [*flags, other])
  change(tmp_path / 'found.json', 0, score=0.1)
  refused('sha256: ', command.main, flags)
  assert (tmp_path / 'out/results.json').read_bytes() == before


def test_the_detector_as_a_classifier_predicts_the_class_of_its_most_confident_box(tmp_path, flags):
  detections = json.loads((tmp_path / 'found.json').read_text())
  detections.append({**detections[0], 'category_id': 2, 'score': 0.95})  # a second box on v0/4.jpg
  (tmp_path / 'found.json').write_text(json.dumps(detections))
  # Without a list of categories it is unknown whether their ids begin at 0 or 1.
  refused('has no categories', command.main, [*flags, '--predictions=x'])
  names = {1: 'antelope', 2: 'bear', 30: 'unicorn'}
  truth = json.loads((tmp_path / 'truth.json').read_text())
  truth['categories'] = [{'id': number, 'name': name} for number, name in names.items()]
  (tmp_path / 'truth.json').write_text(json.dumps(truth))
  assert command.main([*flags, f'--predictions={tmp_path / "classes.json"}']) == 0
  scores = json.loads((tmp_path / 'classes.json').read_text())
  best = {frame: row.index(max(row)) if row else None for frame, row in scores.items()}
  assert best == {**dict.fromkeys(FRAMES, 1), 'v0/4.jpg': 2, 'v0/6.jpg': 2, 'v1/4.jpg': None}
  assert scores['v0/4.jpg'][1:3] == [0.9, 0.95] and len(scores['v0/4.jpg']) == 30
  change(tmp_path / 'found.json', 0, category_id=30)
  refused('category_id 30 .* none of the 30', command.main, [*flags, '--predictions=x', '--k=2'])


def test_figures_and_report(tmp_path, flags):
  for index, frame in enumerate(FRAMES):
    (tmp_path / 'frames' / frame).parent.mkdir(parents=True, exist_ok=True)
    Image.new('RGB', (50, 50), (20 * index, 0, 0)).save(tmp_path / 'frames' / frame)
  assert command.main([*flags, f'--frames={tmp_path / "frames"}']) == 0
  out = tmp_path / 'out'
  names = {file.stem for file in (out / 'figures').glob('*.png')}
  assert {'mAP_anchor_kind', 'detection_pictures', 'localisation_pictures'} <= names
  page = (out / 'report.html').read_text()
  assert page.count('<img') == len(names) and 'robustness detection --metadata=' in page
  arrays = Results.read(out).arrays
  assert arrays['detection/frame'].tolist() == ['v0/5.jpg', 'v0/6.jpg', 'v1/5.jpg', 'v1/4.jpg']
  assert arrays['detection/precision'].tolist() == [1, 0, 1, 0]
  assert arrays['localisation/frame'].tolist() == ['v1/5.jpg', 'v1/4.jpg']
  assert arrays['detection/class'].tolist() == [1, 2]
  environment = json.loads((out / 'environment.json').read_text())
  assert environment['command'].startswith('robustness detection --metadata=')


def change(path: pathlib.Path, entry: int, **values: object) -> None:
  """Sets fields of one detection in a file of detections."""
  entries = json.loads(path.read_text())
  entries[entry].update(values)
  path.write_text(json.dumps(entries))


def test_clipped_boxes_classes_without_ground_truth_and_a_large_k_are_reported(
  tmp_path, capsys, flags
):
  change(tmp_path / 'found.json', 0, bbox=[-2, 5, 27, 20])
  change(tmp_path / 'found.json', 1, category_id=7)
  assert command.main(flags) == 0
  output = capsys.readouterr().out
  assert 'note: 1 of 8 detections cut at the border of their image, first entry 0 of' in output
  assert "on 'v0/4.jpg', by 2 pixels" in output
  assert 'note: 2 of 8 detections of classes without ground truth, first class' in output
  assert 'note: --k is 10, but no neighbor is more than 1 frames' in output
  assert Results.read(tmp_path / 'out').settings['asked_k'] == 10
  table = Results.read(tmp_path / 'out').tables['remarks']
  assert [row[1:3] for row in table.rows] == [[0, 9], [1, 8], [2, 8]]


def test_without_ground_truth_nothing_is_scored(tmp_path, flags):
  document = json.loads((tmp_path / 'truth.json').read_text())
  anchors = [index for index, frame in enumerate(FRAMES) if frame in SETS]
  for annotations in ([], [b for b in document['annotations'] if b['image_id'] not in anchors]):
    (tmp_path / 'truth.json').write_text(json.dumps({**document, 'annotations': annotations}))
    message = f'no box on any of the 3 anchors, and {len(annotations)} on all'
    refused(message, command.main, flags)
  assert not (tmp_path / 'out').exists()


def test_a_detector_without_detections_scores_zero(tmp_path, flags):
  (tmp_path / 'found.json').write_text('[]')
  flags += ['--k=1', '--recall_points=101', '--threshold=0.75', '--neighbors_only']
  assert command.main(flags) == 0
  results = Results.read(tmp_path / 'out')
  assert results.table.value.tolist() == [0] * 6
  expected = {'k': 1, 'threshold': 0.75, 'recall_points': 101, 'include_anchor': False}
  assert results.settings == {**expected, 'confidence': 0.95}


@cases(
  'flag, message',
  ('--k=0', bad_setting('k', 0)),
  ('--shown=-1', bad_setting('shown', -1)),
  ('--frames=nowhere', "'v0/5.jpg' is no file in"),
  ('--threshold=1.5', bad_setting('threshold', 1.5)),
  ('--detections=none.json', 'none.json is no file'),
)
def test_bad_flags_are_named(flag, message, flags):
  refused(message, command.main, [*flags, flag])
