"""Tests reading cue-conflict images, edges and silhouettes in the released layout."""

from tests.cases import cases
from tests.input_pipeline.domains import full_batch, levels, read, save_grey
from tests.refusals import bad_setting, refused


def save(root, names):
  """Writes a grey image for each name; its level is the position of the name."""
  for level, name in enumerate(names):
    save_grey(root / name, level)


def rows_of(path, dataset='cue_conflict', **settings):
  """Returns the rows of a data set that may be a part of the release."""
  return read('cue_conflict', path, **{'dataset': dataset, 'allow_missing': True, **settings})


def test_the_label_is_the_shape_and_the_texture_is_a_column(tmp_path):
  save(tmp_path, ('cat/cat7-elephant1.png', 'cat/cat7-cat2.png', 'bear/bear10-truck3.png'))
  rows = rows_of(tmp_path)
  batch = full_batch(rows)
  assert levels(batch['image']) == [2, 1, 0]
  assert [rows.class_names[k] for k in batch['label']] == ['bear', 'cat', 'cat']
  assert batch['texture'].astype(str).tolist() == ['truck', 'cat', 'elephant']
  assert len(rows.class_names) == 16


@cases('dataset', 'edge', 'silhouette')
def test_edges_and_silhouettes_have_no_texture(tmp_path, dataset):
  save(tmp_path, ('oven/oven3.png', 'boat/boat5.png'))
  batch = full_batch(rows_of(tmp_path, dataset))
  assert levels(batch['image']) == [1, 0] and 'texture' not in batch


@cases(
  'name, dataset, message',
  ('cat/cat7.png', 'cue_conflict', r'no picture of cue_conflict: .*cat7-elephant1\.png'),
  ('cat/cat7-dog1.png', 'edge', r'no picture of edge: .*cat/cat7\.png'),
  ('cat/dog7-cat1.png', 'cue_conflict', 'no picture of cue_conflict'),
  ('cat/cat7-lion1.png', 'cue_conflict', 'no picture of cue_conflict'),
  ('lion/lion1.png', 'edge', 'no picture of edge'),
  ('notes.txt', 'edge', 'has 0 pictures; edge has 160'),
)
def test_names_of_another_layout_are_refused(tmp_path, name, dataset, message):
  save(tmp_path, (name,)) if name.endswith('png') else (tmp_path / name).write_text('')
  refused(message, rows_of, tmp_path, dataset)


def test_a_part_of_the_release_and_unusable_settings_are_refused(tmp_path):
  save(tmp_path, ('cat/cat7-dog1.png',))
  refused('has 1 pictures; cue_conflict has 1280', rows_of, tmp_path, allow_missing=False)
  refused(bad_setting('config.data.cue_conflict.dataset', 'sketch'), rows_of, tmp_path, 'sketch')
  refused(bad_setting('config.data.cue_conflict.path', ''), rows_of, '')
  refused(bad_setting('config.data.split', 'train'), rows_of, tmp_path, split='train')
