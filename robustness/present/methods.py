"""The paragraph of a paper on how its numbers were made, with what reproducibility checklists ask
for.
"""

from collections.abc import Mapping

import pandas as pd

from robustness.core.typing import Facts
from robustness.estimates import intervals
from robustness.estimates.jackknife import FEWEST_SEEDS
from robustness.estimates.quantity import RATIO
from robustness.estimates.stratified import METHOD as STRATIFIED
from robustness.estimates.stratified_means import STRATIFIED_DIFFERENCE, STRATIFIED_MEAN
from robustness.estimates.systematic import JOINT
from robustness.estimates.table import OVER_SEEDS
from robustness.present.notation import span
from robustness.present.page import counted_devices, duration, flattened
from robustness.present.phrases import by_seed, classifier_facts, data_words
from robustness.present.selection import Selection, headlines
from robustness.results import NO_CLASSIFIER, SEED, WHICH_NUMBERS, Results

METHODS = {
  intervals.CLOPPER_PEARSON: "Clopper and Pearson's exact binomial ones",
  intervals.KORN_GRAUBARD: "Korn and Graubard's for clustered observations",
  intervals.SEQUENTIAL: "Clopper and Pearson's at the level of the sequential design",
  intervals.BONETT_PRICE: "Bonett and Price's for paired shares",
  intervals.LOG_RATIO: 'by the delta method for the log ratio',
  intervals.BOOTSTRAP: 'percentiles of a bootstrap over the units',
  intervals.STUDENT: "Student's",
  intervals.REGRESSION: "Student's of a regression, over its points and not over images",
  intervals.BAYESIAN: 'percentiles of a Bayesian bootstrap over the units',
  intervals.JACKKNIFE: "Student's from the jackknife over the units, after a transformation",
  intervals.NEWCOMBE: "Newcombe's for independent shares",
  intervals.THRESHOLD: 'over the measured images and the draw of those that decide the threshold',
  STRATIFIED: 'normal ones of stratified samples',
  STRATIFIED_MEAN: "Korn and Graubard's for images clustered in classes of equal weight",
  STRATIFIED_DIFFERENCE: "Bonett and Price's for paired shares, in classes of equal weight",
  **{method: f'quantiles of {method} of the accuracies' for method in JOINT.values()},
  OVER_SEEDS: "Student's over trainings",
}
"""Descriptions of intervals, by the column `method` of the table of results."""
PACKAGES = ('jax', 'flax', 'torch', 'tensorflow-datasets', 'numpy', 'scipy')
"""Packages to state with their versions, if the run has them."""
DETAILS = (
  *('data', 'digest of the images', 'storage', 'constants', 'corrupted images'),
  'comparable with published tables',
)
"""Rows of the table `WHICH_NUMBERS` that `settings` returns and the paragraph leaves out."""


def paragraph(results: Results, environment: Facts, label: str = '') -> str:
  """Returns a paragraph for the methods section of a paper.

  It states what was measured and how, the kinds of intervals, and the machine.

  Args:
    results: the results of a finished workdir.
    environment: the contents of its `environment.json`.
    label: the classifier to describe; '' for all and their differences.
  """
  sentences = [
    f'We measure {_classifiers(results, label)} on {data_words(results.data)}.',
    _protocol(results),
    _intervals(results, label),
    _baseline(results),
    _scope_of_intervals(results, environment, label),
    _machine(environment),
  ]
  return ' '.join(filter(None, sentences))


def _classifiers(results: Results, label: str) -> str:
  """Describes one or all classifiers, such as 'net (small cnn, trained here, …)'.

  Args:
    results: the results.
    label: the classifier; '' for all, separated by semicolons.
  """
  texts = []
  for facts in results.classifiers:
    if label in ('', facts['label']):
      first = by_seed(facts)[0]  # all seeds have the same input scaling and label space
      parts = [*classifier_facts(facts), _scaling(first)]
      parts += [f'{key}: {first[key]}' for key in ('label_space', 'merge') if first.get(key)]
      words = ', '.join(part for part in parts if part)
      texts.append(f'{facts["label"]} ({words})' if words else facts['label'])
  return '; '.join(texts)


def _scaling(classifier: Facts) -> str:
  """Returns how a classifier normalises images in [0, 1]; '' if this is unknown.

  An example is 'images normalised by mean 0.5, 0.5, 0.5 and std 0.2, 0.2, 0.2'.
  """
  values = classifier.get('preprocessing') or {}
  texts = []
  for key in ('mean', 'std'):
    if key in values:
      numbers = ', '.join(f'{number:.4g}' for number in values[key])  # one for each channel
      texts.append(f'{key} {numbers}')
  return f'images normalised by {" and ".join(texts)}' if texts else ''


def _protocol_facts(results: Results, task: str) -> dict[str, str]:
  """Returns how a task (one study of a run) was measured.

  An example is {'data': 'digits, split test', 'crop': '24'}, from the table `WHICH_NUMBERS`. The
  result is {} if the results lack this table.

  Args:
    results: the results.
    task: the task; '' if the run has a single study.
  """
  table = results.tables.get(f'{task}: {WHICH_NUMBERS}' if task else WHICH_NUMBERS)
  rows = table.rows if table else ()
  # Semicolons separate the facts in the paragraph.
  return {str(key): str(text).replace('; ', ', ') for key, text in rows}


def _protocol(results: Results) -> str:
  """Returns sentences on how images were chosen, prepared and changed.

  An example is 'Protocol: n: 100. Protocol of noise: crop: 24.', if the task 'noise' also crops
  images. Facts that hold for most tasks come first.
  """
  tasks_by_fact: dict[str, list[str]] = {}
  for task in results.by_task:
    for key, text in _protocol_facts(results, task).items():
      if key not in DETAILS:  # `settings` has these
        tasks_by_fact.setdefault(f'{key}: {text}', []).append(task)
  # Facts on the same tasks become one sentence.
  facts_by_tasks: dict[tuple[str, ...], list[str]] = {}
  for fact, tasks in tasks_by_fact.items():
    facts_by_tasks.setdefault(tuple(tasks), []).append(fact)
  sentences = []
  for names in sorted(facts_by_tasks, key=len, reverse=True):
    of_tasks = '' if len(names) == len(results.by_task) else f' of {", ".join(names)}'
    sentences.append(f'Protocol{of_tasks}: {"; ".join(facts_by_tasks[names])}.')
  return ' '.join(sentences)


def settings(results: Results, environment: Facts) -> list[str]:
  """Returns lines with the settings that `paragraph` leaves out, and with the command.

  Each task (one study of a run) has one line.

  Args:
    results: the results of a finished workdir.
    environment: the contents of its `environment.json`, with the command.
  """
  lines = []
  for task, results_of_task in results.by_task.items():
    facts = _protocol_facts(results, task)
    values = {k: v for k, v in results_of_task.protocol.items() if k not in {'name', *facts}}
    texts = [f'{key}: {facts[key]}' for key in DETAILS if key in facts]
    texts += [f'{name}={text}' for name, text in flattened(values) if text]
    if texts:
      lines.append(f'{task or results_of_task.study}: {"; ".join(texts)}')
  if command := environment['command']:
    lines.append(f'The command is `{command}`.')
  return lines


def _intervals(results: Results, label: str) -> str:
  """Returns a sentence on the kinds of intervals, with the number of images for each.

  It covers the main quantities. The number of independent units, such as videos, is added if it
  differs from the number of images.

  Args:
    results: the results.
    label: the classifier to describe, without differences; '' for all and their differences.
  """
  # {method of intervals: [(headline in words, row of an estimate)]}
  estimates_by_method: dict[str, list[tuple[str, pd.Series]]] = {}
  for selection in headlines(results.over_seeds.by_task):
    for _, row in selection.reported_rows.iterrows():
      is_described = not label or (row.classifier == label and not row.versus)
      has_interval = not pd.isna(row.low) and row.method != intervals.EXACT
      if is_described and has_interval:
        words = _headline_words(selection, is_difference=bool(row.versus))
        estimates_by_method.setdefault(row.method, []).append((words, row))
  clauses, confidences = [], set()
  for method, estimates in estimates_by_method.items():
    names = ', '.join(dict.fromkeys(words for words, _ in estimates))
    rows = [row for _, row in estimates]
    confidences |= {f'{100 * row.confidence:g} %' for row in rows}
    n = span(row.n for row in rows)
    units = span(row.clusters for row in rows)
    size = f'n = {n}' if units == n else f'n = {n} in {units} independent units'
    clauses.append(f'for {names}: {METHODS.get(method, method)} ({size})')
  levels = ' and '.join(sorted(confidences))
  return f'Intervals of {levels} are {"; ".join(clauses)}.' if clauses else ''


def _headline_words(selection: Selection, is_difference: bool) -> str:
  """Names a main quantity, such as 'top-1 error under fog' or 'accuracy of each class'.

  The highest or lowest value over several conditions is followed by what its interval allows for,
  such as '(simultaneous over 8 corruptions)'.

  Args:
    selection: the quantity and its conditions.
    is_difference: whether differences between classifiers are meant, as in 'differences in mCE'.
  """
  words = f'{selection.quantity.words} of each class' if selection.is_by_class else selection.words
  if is_difference:
    words = f'differences in {words}'
  return f'{words} ({selection.interval_scope})' if selection.interval_scope else words


def _baseline(results: Results) -> str:
  """Returns a sentence on the baseline classifier of ratios such as mCE; '' without ratios."""
  names = set()
  for task in results.by_task.values():
    if any(q.kind == RATIO and q.better == 'lower' for q in task.quantities):
      baseline = str(task.settings.get('baseline', ''))
      names.add(results.labels[0] if baseline == 'first' else baseline)
  names.discard('')
  return f'Ratios are to the values of {" and ".join(sorted(names))}.' if names else ''


def _scope_of_intervals(results: Results, environment: Facts, label: str) -> str:
  """Returns a sentence on what intervals include and what they leave out.

  Intervals over several seeds include the variation between trainings, but not the choice of
  images. All other intervals include the choice of images, but not the variation between trainings.
  They hold only for the weights, or the predictions from files, that were measured.

  Args:
    results: the results of a finished workdir.
    environment: the contents of its `environment.json`, with the seed.
    label: the classifier to describe; '' for all.
  """
  seeds = results.settings.get('seeds') or ()
  if seeds or SEED in results.table:
    trained = f'Each classifier is trained {len(seeds)} times (seeds {", ".join(map(str, seeds))});'
    if len(seeds) < FEWEST_SEEDS:
      return f'{trained} values are means over these, too few for an interval.'
    return (
      f'{trained} values are means over these, intervals cover another training of the same recipe '
      'on the same images, and leave out the choice of images.'
    )
  included = 'Intervals cover the choice of images of the same kind'
  if (results.table.method == intervals.REGRESSION).any():
    included += ', those of a regression that of its points'
  if all('predictions' in facts for facts in results.classifiers):
    return f'{included}; they hold for these predictions.'
  if all(facts.get('note') == NO_CLASSIFIER for facts in results.classifiers):
    return f'{included}.'
  weights = {
    'one training each' if facts.get('weights') == 'trained here' else 'the given weights'
    for facts in results.classifiers
    if label in ('', facts['label'])
  }
  return (
    f'{included}; they hold for {" or ".join(sorted(weights))} and one draw of what is random '
    f'(seed {environment.get("seed", 0)}), and leave out what another training would change.'
  )


def _machine(environment: Facts) -> str:
  """Returns a sentence on the software versions, duration and devices of a run."""
  versions: Mapping[str, str] = environment.get('versions', {})
  code = f'classifier-robustness {environment.get("robustness", "")}'
  commit = str(environment.get('git_commit', ''))
  if len(commit) == 40:  # else it says why the commit is unknown
    code = f'{code} (commit {commit[:12]})'
  packages = [f'{name} {versions[name]}' for name in PACKAGES if name in versions]
  time = duration(environment)
  verb = f'takes {time} on' if time else 'uses'
  software = ', '.join([f'Python {environment.get("python", "")}', *packages])
  return f'The run of {code} {verb} {counted_devices(environment)} with {software}.'
