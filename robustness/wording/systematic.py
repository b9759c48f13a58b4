"""What the study `systematic` found, in words."""

from __future__ import annotations

from robustness.results import Number, Results
from robustness.wording.phrases import (
  NotReportedError,
  Reader,
  for_all,
  has_interval,
  largest,
  noted,
  percent,
  plain,
  points,
  told,
  verdict,
  words,
)


def sentences(results: Results) -> list[str]:
  """Returns ρ, what it is made of, its ends over environments, and accuracies without ρ."""
  return told(
    results, [_rho, _unseen_gain, _accuracies, _environments, _clean, _hardest, _near_duplicates]
  )


def _rho(reader: Reader) -> str:
  def clause(label: str) -> str:
    rho = reader.number('rho', label)
    return noted(f'{label} ρ = {plain(rho)}', rho)

  return (
    'of the robustness learned on some classes, the share ρ that carries over to the others (1 is '
    f'all): {reader.each(clause)}'
  )


def _unseen_gain(reader: Reader) -> str:
  baseline = reader.setting('baseline')

  def clause(label: str) -> str:
    gain = reader.number('unseen_gain', label)
    return f'{label} {points(gain)}, {verdict(gain, "a loss", "a gain")}'

  return (
    'accuracy on classes that were not seen in the environment minus that of '
    f'{baseline or "the baseline"} on the same images: {reader.each(clause)}'
  )


def _accuracies(reader: Reader) -> str:
  def clause(label: str) -> str:
    seen, unseen = (reader.number(name, label) for name in ('seen', 'unseen'))
    said = f'{label} {percent(seen)} and {percent(unseen)}'
    baseline = reader.results.numbers.get(reader.name('baseline', label))
    return f'{said}, the baseline {percent(baseline)}' if has_interval(baseline) else said

  return (
    'accuracy on the classes that were seen in the environment, and on those that were not: '
    f'{reader.each(clause)}'
  )


def _by_environment(reader: Reader, quantity: str, label: str) -> dict[str, Number]:
  """Returns the numbers of a classifier by environment."""
  environments = [str(name) for name in reader.array('environment')[1:]]
  numbers = {
    name: reader.results.numbers.get(reader.name(f'{quantity}_{name}', label))
    for name in environments
  }
  known = {name: number for name, number in numbers.items() if has_interval(number)}
  if len(known) < 2:
    raise NotReportedError(quantity)
  return known


def _environments(reader: Reader) -> str:
  def clause(label: str) -> str:
    rho = _by_environment(reader, 'rho', label)
    ends = [choose(rho, key=lambda name: rho[name].value) for choose in (min, max)]
    if rho[ends[0]].value == rho[ends[1]].value:
      raise NotReportedError(label)
    least = min(0.0, *(number.low for number in rho.values()))  # the formula as printed
    wide = [for_all(rho[name], len(rho), least, 1) for name in ends]
    said = [f'{plain(rho)} in {words(name)}' for name, rho in zip(ends, wide, strict=True)]
    return f'{label} from {" to ".join(said)}'

  return f'by environment, ρ goes: {reader.each(clause)}'


def _clean(reader: Reader) -> str:
  first = str(reader.array('environment')[0])  # of stored ones it says which
  return f'on {first} images, {reader.shares("clean_accuracy", "is right on")}'


def _hardest(reader: Reader) -> str:
  def clause(label: str) -> str:
    name, accuracy = largest(_by_environment(reader, 'accuracy', label), -1)
    return f'{label} is right on {percent(accuracy)} in {words(name)}'

  return f'in the hardest environment, {reader.each(clause)}'


def _near_duplicates(reader: Reader) -> str:
  def clause(label: str) -> str:
    share = reader.number('near_duplicates', label)
    return noted(f'{label} {percent(share)}', share)

  return f'test images with a near-duplicate among the training images: {reader.each(clause)}'
