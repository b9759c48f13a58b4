"""What the study `video_pm_k` and the scoring of a detector found, in words."""

from __future__ import annotations

import re
from collections.abc import Callable

from robustness.results import Results
from robustness.wording.phrases import (
  NotReportedError,
  Reader,
  counted,
  percent,
  plain,
  points,
  told,
  verdict,
)


def sentences(results: Results) -> list[str]:
  """Returns accuracies on anchors and on the worst neighbors, and what differs from the first."""
  return told(results, [_accuracies, _drops, _differences, _static, _fit])


def _k(reader: Reader) -> int:
  """Returns k, read from the name of the number."""
  for name in reader.results.numbers:
    match = re.search(r'accuracy_pm_(\d+)$', name)
    if match:
      return int(match[1])
  raise NotReportedError('accuracy_pm_<k>')


def _accuracies(reader: Reader) -> str:
  k = _k(reader)

  def clause(label: str) -> str:
    anchor, worst, drop = (
      reader.number(name, label) for name in ('accuracy_anchor', f'accuracy_pm_{k}', f'drop_pm_{k}')
    )
    return (
      f'{label} is right on {percent(anchor)}, and on all frames around them on {percent(worst)}: '
      f'a drop of {points(drop, False)}'
    )

  number = reader.number('accuracy_anchor', reader.first)
  frames = counted(number, 'video frames')
  end = _end(reader, 'k', k)
  return f'of {frames} and the similar ones up to {k} frames away{end}, {reader.each(clause)}'


def _end(reader: Reader, setting: str, k: int) -> str:
  """Says that the sets end at k, if more was asked for."""
  asked = reader.results.settings.get(setting, k)
  return f' (the sets end there, before the {asked} that were asked for)' if asked > k else ''


def _drops(reader: Reader) -> str:
  name = f'drop_difference_pm_{_k(reader)}'

  def clause(label: str) -> str:
    difference = reader.number(name, label)
    return f'{label} {points(difference)}, {verdict(difference, "more robust", "less robust")}'

  return f'the drop minus that of {reader.first}, on the same sets: {reader.others(clause)}'


def _differences(reader: Reader) -> str:
  differences = reader.differences(
    'less accurate', 'more accurate', lambda frames: frames.startswith('pm-')
  )
  return (
    f'accuracy on the worst of the frames minus that of {reader.first}, on the same sets: '
    f'{differences}'
  )


def _static(reader: Reader) -> str:
  return (
    'of one frame of each set, that on which most classifiers err, '
    f'the right class is predicted by {reader.shares("accuracy_static", "on")}'
  )


def _fit(reader: Reader) -> str:
  slope, intercept = (reader.number(f'fit_{name}') for name in ('slope', 'intercept'))
  return (
    f'across classifiers, accuracy on the worst frames is {plain(slope)} times that on anchors, '
    f'plus {points(intercept)}'
  )


def detector_sentences(results: Results) -> list[str]:
  """Returns mean average precision on the anchors, on the worst frames, and its drop."""
  return told(results, [_mean_precision('detection'), _mean_precision('localisation')])


def _mean_precision(task: str) -> Callable[[Reader], str]:
  """Returns a sentence on one of the detector's tasks."""

  def sentence(reader: Reader) -> str:
    k = reader.setting('k')
    names = ('mAP_anchor', f'mAP_pm_{k}', f'drop_pm_{k}')
    anchor, worst, drop = (reader.number(f'{task}/{name}') for name in names)
    return (
      f'mean average precision of {task} is {percent(anchor)} on {anchor.n:,} anchors and '
      f'{percent(worst)} on the worst of the frames up to {k} away{_end(reader, "asked_k", k)}, '
      f'a drop of {points(drop, False)}'
    )

  return sentence
