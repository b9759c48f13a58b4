"""The section `config.battery`: parts in order, rows of their own, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from robustness.config import experiment
from robustness.config.defaults import default_battery
from robustness.core.errors import InputError

PARTS = {'plain': 'accuracy', 'maps': 'fourier_heatmap', 'line': 'tradeoff'}


def config(**changes: Any) -> dict[str, Any]:
  written = default_battery(PARTS, ('natural', 'gaussian'), 'fourier_table')
  written.update_from_flattened_dict({k.replace('__', '.'): v for k, v in changes.items()})
  return written.to_dict()


def test_parts_run_in_the_order_that_is_given_and_inherit_the_rows() -> None:
  written = config(
    battery__parts=('line', 'plain'), data__num_images=50, battery__plain__data__num_images=7
  )
  checked = experiment.from_config(written)
  assert list(checked.measurements) == ['line', 'plain']
  assert [study.name for study in checked.studies.values()] == ['tradeoff', 'accuracy']
  assert checked.measurements['plain'].data.num_images == 7
  assert checked.measurements['line'].data == checked.data
  assert checked.data.num_images == 50 and not checked.is_single


def test_rows_of_another_source_inherit_nothing() -> None:
  written = config(data__num_images=50, data__path='DIR', battery__plain__data__source='made_clips')
  checked = experiment.from_config(written)
  clips = checked.measurements['plain'].data
  assert (clips.source, clips.num_images, clips.path) == ('made_clips', 0, '')
  assert checked.section_of(clips) == 'config.battery.plain.data'
  assert checked.section_of(checked.measurements['line'].data) == 'config.data'


@pytest.mark.parametrize(
  ('changes', 'message'),
  [
    ({'parts': ('plian',)}, r"config\.battery\.parts names 'plian'; did you mean 'plain'"),
    ({'parts': ()}, r'config\.battery\.parts is \(\); .* plain, maps, line'),
    ({'parts': 'plain'}, r"config\.battery\.parts is 'plain'; it must be a tuple"),
    ({'parts': ('plain', 'plain')}, r'each task runs once'),
    (
      {'plain': {'study': {'name': 'acuracy'}}},
      r"config\.battery\.plain\.study\.name names 'acuracy'",
    ),
    ({'maps': {'stduy': {}}}, r"config\.battery\.maps\.stduy: did you mean 'study'"),
    ({'../x': {}}, r"config\.battery names '\.\./x'; a folder is named so"),
    ({'maps': {'data': 3}}, r'config\.battery\.maps\.data must be a section of keys; got 3'),
    ({'summary': []}, r'config\.battery\.summary must be a section'),
    ({'maps': 3}, r'config\.battery\.maps must be a section with a study; got 3'),
    (
      {'maps': {'study': {'name': 'fourier_heatmap', 'norm': -1.0}}},
      r'config\.battery\.maps\.study\.norm is -1',
    ),
    (
      {'maps': {'study': {'name': 'fourier_heatmap'}, 'data': {'num_imags': 3}}},
      r"config\.battery\.maps\.data\.num_imags: did you mean 'num_images'",
    ),
    ({'summary': {'name': 'fourier_tabel'}}, r"summary\.name names 'fourier_tabel'; did you mean"),
  ],
)
def test_mistakes_are_named(changes: dict[str, Any], message: str) -> None:
  written = config()
  written['battery'].update(changes)
  with pytest.raises(InputError, match=message):
    experiment.from_config(written)


def test_a_study_beside_a_battery_is_refused() -> None:
  with pytest.raises(InputError, match=r'either config\.study or config\.battery'):
    experiment.from_config({**config(), 'study': {'name': 'accuracy'}})


def test_a_missing_baseline_of_mce_is_refused() -> None:
  written = default_battery({'errors': 'corruption_error'}, ('plain', 'gaussian'), 'fourier_table')
  with pytest.raises(
    InputError, match=r"'natural', by whose errors mCE divides, .* plain, gaussian"
  ):
    experiment.from_config(written.to_dict())
  written.battery.summary.fourier_table.baseline = 'plain'
  assert list(experiment.from_config(written.to_dict()).measurements) == ['errors']


def test_classifiers_must_be_as_many_as_the_most_demanding_part_needs() -> None:
  written = config()
  del written['classifiers']['gaussian']
  with pytest.raises(InputError, match='tradeoff compares classifiers .* at least 2, not 1'):
    experiment.from_config(written)
  written['battery']['parts'] = ('plain', 'maps')
  assert len(experiment.from_config(written).classifiers) == 1
