"""The ImageNet pictures that come with foolbox."""

from __future__ import annotations

import importlib.util

import pytest

from input_pipeline import DataSettings, load
from input_pipeline.sources.foolbox import WNIDS
from robustness.core.errors import InputError
from robustness.models import imagenet_names


def test_classes_are_wnids_at_their_positions():
  assert len(WNIDS) == 19 and list(WNIDS) == sorted(WNIDS)
  assert all(imagenet_names.WNIDS[index] == wnid for index, wnid in WNIDS.items())


def test_twenty_pictures_in_the_order_of_their_numbers():
  if importlib.util.find_spec('foolbox') is None:
    pytest.skip("needs pip install '.[imagenet]'")
  rows = load(DataSettings(source='foolbox', resize=32, crop=32))
  (batch,) = rows.batches(20)
  assert rows.num_examples == 20 and batch['mask'].all()
  classes = [rows.class_names[label] for label in batch['label']]
  assert classes[:3] == [imagenet_names.WNIDS[i] for i in (243, 559, 438)]
  assert classes[6] == classes[7] == imagenet_names.WNIDS[609]
  assert 0.2 < batch['image'].mean() < 0.8


def test_a_missing_package_and_another_split_are_named(monkeypatch):
  with pytest.raises(InputError, match="'train'.*test"):
    load(DataSettings(source='foolbox', split='train'))
  monkeypatch.setattr(importlib.util, 'find_spec', lambda name: None)
  with pytest.raises(InputError, match=r"pip install '.\[imagenet\]'.*source=folder"):
    load(DataSettings(source='foolbox'))
