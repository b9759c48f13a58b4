"""What the studies of bands of frequencies found, in words: `band_noise`, `filtered_accuracy`."""

from __future__ import annotations

from collections.abc import Callable

from robustness.results import Results
from robustness.wording.phrases import (
  NotReportedError,
  Reader,
  clean_errors,
  for_all,
  largest,
  number_of,
  percent,
  points,
  told,
  verdict,
)

_KINDS = {'low_pass': 'low-pass', 'high_pass': 'high-pass'}


def noise_sentences(results: Results) -> list[str]:
  """Returns the errors on clean images and in the worst band, and the largest differences."""
  return told(results, [clean_errors, _worst_band, _differences])


def filter_sentences(results: Results) -> list[str]:
  """Returns clean accuracies, the bandwidths that keep half of them, and the differences."""
  low, high = (_kept(kind) for kind in _KINDS)
  return told(results, [_clean_accuracy, low, high, _differences])


def _clean_accuracy(reader: Reader) -> str:
  return f'on images that are not filtered, {reader.shares("clean_accuracy", "is right on")}'


def _worst_band(reader: Reader) -> str:
  def clause(label: str) -> str:
    name, error = largest(reader.beginning('error/', label))
    return f'{label} errs most under {band(name)}: {percent(error)}'

  norm = reader.setting('norm')
  return f'with noise of L2 norm {norm:g} in each channel, {reader.each(clause)}'


def _kept(kind: str) -> Callable[[Reader], str]:
  """Returns a sentence on the least bandwidth of a kind with half the clean accuracy."""

  def sentence(reader: Reader) -> str:
    def clause(label: str) -> str:
      clean = reader.number('clean_accuracy', label)
      shares = reader.beginning(f'accuracy/{kind}_', label)
      for bandwidth in sorted(map(int, shares)):
        share = shares[str(bandwidth)]
        if share.value >= clean.value / 2:
          chosen = percent(for_all(share, len(shares)))
          return f'{label} from bandwidth {bandwidth} on, where it is right on {chosen}'
      raise NotReportedError(label)

    kept = f'of {_KINDS[kind]} filtered images, half of the clean accuracy is kept by'
    return f'{kept} {reader.each(clause)}'

  return sentence


def _differences(reader: Reader) -> str:
  table = reader.table('comparison')
  quantity = str(table.columns[3]).partition(',')[0]
  confidence = reader.confidence

  def clause(label: str) -> str:
    rows = [row for row in table.rows if row[1] == label and row[2] != 'clean']
    if not rows:
      raise NotReportedError(label)
    kind = f'paired bonett-price {confidence:g}'
    own = {str(row[2]): number_of(row[3:6], 0, kind) for row in rows}
    name = max(own, key=lambda key: abs(own[key].value))
    difference = for_all(own[name], len(own))
    counts = [sum(bool(row[-1]) and sign * row[3] > 0 for row in rows) for sign in (-1, 1)]
    return (
      f'{label} {points(difference)} with {band(name)}, '
      f'{verdict(difference, "lower", "higher")}; of {len(rows)} bands significantly lower in '
      f'{counts[0]} and higher in {counts[1]}'
    )

  return f'the largest difference in {quantity} from {reader.first}: {reader.others(clause)}'


def band(name: str) -> str:
  """'low_pass_9' is 'low-pass bandwidth 9'."""
  kind, _, bandwidth = name.rpartition('_')
  return f'{_KINDS.get(kind, kind)} bandwidth {bandwidth}'
