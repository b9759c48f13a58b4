"""What the Fourier attack and the preview of a heat map found, in words."""

from __future__ import annotations

from robustness.results import Results
from robustness.wording.phrases import (
  NotReportedError,
  Reader,
  counted,
  listed,
  number_of,
  percent,
  points,
  told,
  verdict,
)


def attack_sentences(results: Results) -> list[str]:
  """Returns the errors after one query and after all, and the differences after all."""
  return told(results, [_errors, _differences])


def _errors(reader: Reader) -> str:
  queries = int(reader.setting('queries'))

  def clause(label: str) -> str:
    steps = [('error_1_query', 'after one query')]
    if queries > 1:
      steps.append((f'error_{queries}_queries', f'after {queries}'))
    said = [f'{percent(reader.number(name, label))} {when}' for name, when in steps]
    clean = reader.number('clean_error', label)
    return f'{label} errs on {listed(said)}, without attack on {percent(clean)}'

  clean = reader.number('clean_error', reader.first)
  norm = reader.setting('norm')
  return (
    f'under single Fourier basis images of L2 norm {norm:g}, on {counted(clean, "images")} that '
    f'did not choose them, {reader.each(clause)}'
  )


def _differences(reader: Reader) -> str:
  table = reader.table('comparison')
  view = str(table.rows[-1][2])
  rows = {row[1]: row for row in table.rows if row[2] == view}

  def clause(label: str) -> str:
    if label not in rows:
      raise NotReportedError(label)
    difference = number_of(rows[label][3:6])
    return f'{label} {points(difference)}, {verdict(difference, "more robust", "less robust")}'

  return (
    f'error after {view} minus that of {reader.first}, on the same images: {reader.others(clause)}'
  )


def preview_sentences(results: Results) -> list[str]:
  """Returns at which frequencies the loss is most sensitive, and the clean errors."""
  return told(results, [_bands, _clean])


def _bands(reader: Reader) -> str:
  def clause(label: str) -> str:
    shares = sorted(
      reader.beginning('sensitivity_share/', label).items(), key=lambda s: -s[1].value
    )
    return f'{label} ' + ', '.join(
      f'{percent(share)} at {"middle" if band == "mid" else band} frequency'
      for band, share in shares
    )

  return f'of the energy of the gradient of the loss, image by image: {reader.each(clause)}'


def _clean(reader: Reader) -> str:
  return 'on clean images, ' + reader.each(
    lambda label: f'{label} errs on {percent(reader.number("clean_error", label))}'
  )
