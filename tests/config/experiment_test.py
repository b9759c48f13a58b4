"""A config becomes a checked experiment, or an error that names the key."""

from __future__ import annotations

from typing import Any

import pytest

from robustness.config import experiment
from robustness.config.defaults import default_config
from robustness.core.errors import InputError
from robustness.studies.fourier_heatmap import FourierHeatmap


def config(**changes: Any) -> dict[str, Any]:
  return {**default_config('accuracy').to_dict(), **changes}


def test_defaults_are_a_valid_config() -> None:
  checked = experiment.from_config(config())
  assert checked.studies[''].name == 'accuracy'
  assert list(checked.classifiers) == ['small_cnn']
  assert checked.execution == experiment.Execution()


def test_the_config_of_an_earlier_workdir_opens_with_a_removed_key_at_its_default() -> None:
  assert experiment.from_config(config(parallel_labels=False)).execution == experiment.Execution()
  with pytest.raises(InputError, match=r'unknown key config\.parallel_labels'):
    experiment.from_config(config(parallel_labels=True))


def test_several_classifiers_keep_their_order() -> None:
  written = default_config('fourier_heatmap', labels=('zebra', 'ant', 'moth'))
  checked = experiment.from_config(written.to_dict())
  assert list(checked.classifiers) == ['zebra', 'ant', 'moth']
  assert isinstance(checked.studies[''], FourierHeatmap)


def test_a_key_left_out_keeps_its_default() -> None:
  checked = experiment.from_config(
    {'study': {'name': 'fourier_heatmap', 'norm': 2}, 'classifier': {'name': 'resnet20'}}
  )
  assert checked.studies[''] == FourierHeatmap(norm=2.0)
  assert checked.classifiers['resnet20'].augment.augmentations == ()


@pytest.mark.parametrize(
  ('changes', 'message'),
  [
    ({'batchsize': 3}, r"unknown key config\.batchsize: did you mean 'batch_size'"),
    ({'seed': '0'}, r"config\.seed must be an int; got '0'"),
    ({'seed': 2**32}, r'config\.seed is 4294967296'),
    ({'seed': True}, r'config\.seed must be an int; got True'),
    ({'parallel': 'pmapp'}, r"config\.parallel is 'pmapp'; did you mean 'pmap'"),
    ({'precision': 'float16'}, r"config\.precision is 'float16'"),
    (
      {'precision': 'bfloat16', 'study': {'name': 'attack_error', 'epsilon': 0.001}},
      r'attack_error would measure their rounding: give config\.study\.epsilon .* not 0\.001',
    ),
    ({'views_per_step': -1}, r'config\.views_per_step is -1'),
    ({'study': {'name': 'heatmap'}}, r"config\.study\.name names 'heatmap'; .*'fourier_heatmap'"),
    ({'classifier': 5}, r'config\.classifier must be a section of keys; got 5'),
    ({'classifier': {'attack': []}}, r'config\.classifier\.attack must be a section'),
    ({'classifier': {'seed': 'x'}}, r"config\.classifier\.seed must be an int; got 'x'"),
    ({'classifier': {'name': 'net.py:a/b'}}, r"config\.classifier\.name names 'a/b'"),
    ({'batch_size': 10**12}, r'config\.batch_size is 1000000000000; it must be 1 to 65536'),
    ({'study': {}}, r"config\.study\.name names ''"),
    ({'data': {'sauce': 'npz'}}, r"unknown key config\.data\.sauce: did you mean 'source'"),
    ({'data': 'cifar10'}, r"config\.data must be a section of keys; got 'cifar10'"),
    (
      {'classifier': {'augment': {'flop': True}}},
      r"unknown key config\.classifier\.augment\.flop: did you mean 'flip'",
    ),
    ({'classifiers': {'a': {}}}, r'either config\.classifier or config\.classifiers'),
  ],
)
def test_mistakes_are_named(changes: dict[str, Any], message: str) -> None:
  with pytest.raises(InputError, match=message):
    experiment.from_config(config(**changes))


@pytest.mark.parametrize(
  'label', ['/tmp/x', '..', '.', '', ' ', 'a/b', 'a\\b', 'a\0b', 'a\nb', 'a.b', 'x' * 300, '\udcff']
)
def test_a_label_that_names_no_folder_is_refused(label: str) -> None:
  values = config(classifiers={label: {}})
  del values['classifier']
  with pytest.raises(
    InputError, match=r'config\.classifiers names .*; a folder is named so'
  ) as told:
    experiment.from_config(values)
  assert '\n' not in str(told.value) and len(str(told.value)) < 400


def test_no_classifier_is_refused() -> None:
  with pytest.raises(InputError, match=r'config\.classifiers is empty'):
    experiment.from_config({'study': {'name': 'accuracy'}, 'classifiers': {}})
