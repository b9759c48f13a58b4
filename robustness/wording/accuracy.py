"""What the study `accuracy` found, in words."""

from __future__ import annotations

from robustness.results import Results
from robustness.wording.phrases import (
  NotReportedError,
  Reader,
  counted,
  for_all,
  number_of,
  percent,
  told,
)


def sentences(results: Results) -> list[str]:
  """Returns the accuracies, their paired differences, and the least accurate class of each."""
  return told(results, [_accuracies, _differences, _least_accurate_classes])


def _accuracies(reader: Reader) -> str:
  number = reader.number('top1_accuracy', reader.first)
  return f'of {counted(number, "images")}, {reader.shares("top1_accuracy", "is right on")}'


def _differences(reader: Reader) -> str:
  differences = reader.differences('less accurate', 'more accurate')
  return f'accuracy minus that of {reader.first} on the same images: {differences}'


def _least_accurate_classes(reader: Reader) -> str:
  """Tells it where it is shown to be less accurate than all classes together."""
  table = reader.table('by_class')  # of many classes the least accurate
  num_classes = len(reader.results.data.get('class_names', ()))
  confidence = reader.confidence

  def clause(label: str) -> str:
    cells = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    rows = {str(row['class']): row for row in cells if row['classifier'] == label}
    classes = {
      name: number_of(
        [row[end] for end in ('accuracy', 'low', 'high')],
        int(row['images']),
        f'clopper-pearson {confidence:g}',
      )
      for name, row in rows.items()
    }
    if len(classes) < 2:
      raise NotReportedError(label)
    name = min(classes, key=lambda key: classes[key].value)
    number = for_all(classes[name], max(len(classes), num_classes))
    if number.high >= reader.number('top1_accuracy', label).value:
      raise NotReportedError(label)
    taken = rows[name]['most often taken for']
    mistaken = f', most often taken for “{taken}”' if taken != 'none' else ''
    return f'of {label} “{name}”, {percent(number)}{mistaken}'

  return f'the least accurate class: {reader.each(clause)}'
