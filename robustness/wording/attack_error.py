"""What the study `attack_error` found, in words."""

from __future__ import annotations

from robustness.results import Results
from robustness.wording.phrases import (
  NotReportedError,
  Reader,
  counted,
  listed,
  percent,
  told,
  words,
)


def sentences(results: Results) -> list[str]:
  """Returns the errors under attack, their differences, and where the changes lie."""
  return told(results, [_errors, _differences, _spectra])


def _attacks(reader: Reader) -> str:
  names = reader.setting('attacks')
  said = listed([words(str(name)) for name in names])
  least = 'the worst of ' if len(names) > 1 else ''
  return f'{least}{said} ({reader.setting("norm")}, ε = {reader.setting("epsilon"):.3g})'


def _errors(reader: Reader) -> str:
  def clause(label: str) -> str:
    attacked, clean = (reader.number(name, label) for name in ('attack_error', 'clean_error'))
    return f'{label} errs on {percent(attacked)}, without on {percent(clean)}'

  images = counted(reader.number('attack_error', reader.first), 'images')
  return f'under {_attacks(reader)}, on {images}, {reader.each(clause)}'


def _differences(reader: Reader) -> str:
  view = f'epsilon {reader.setting("epsilon"):.4g}'
  differences = reader.differences('lower error', 'higher error', lambda row: row == view)
  return f'error under attack minus that of {reader.first}, image by image: {differences}'


def _spectra(reader: Reader) -> str:
  clean = reader.number('high_frequency/clean', reader.first)

  def clause(label: str) -> str:
    shares = reader.beginning('high_frequency/', label)
    said = [
      f'{percent(share)} under {words(name)}' for name, share in shares.items() if name != 'clean'
    ]
    if not said:
      raise NotReportedError(label)
    return f'of {label} {listed(said)}'

  return (
    'of the energy of changes that leave an image wrong, this share is of high frequency: '
    f'{reader.each(clause)}; of the images themselves {percent(clean)}'
  )
