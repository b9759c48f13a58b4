"""`robustness correlations`: do networks have the same ranks by two quantities?

robustness correlations PATH PATH ... --out=DIR

  Spearman's rank correlations, with intervals over the networks, between all overall values that
  finished workdirs and batteries have in common. PATH may be a folder of such, as a leaderboard is;
  NAME=PATH writes NAME before the quantities of PATH, where two paths measure the same one on other
  images. DIR gets the tables, one page of scatter plots, and report.html.
"""

import itertools
import json
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from robustness.cli import new_parser
from robustness.comparison.entries import network_of
from robustness.comparison.pairing import PREPARATION_KEYS, SELECTION_KEYS
from robustness.core.errors import InputError
from robustness.core.paths import expanded, label_and_path
from robustness.core.settings import differing_keys
from robustness.core.typing import Facts
from robustness.estimates.facets import Facet
from robustness.estimates.means import estimate_row, table_of_rows
from robustness.estimates.quantity import AMOUNT, Quantity
from robustness.estimates.ranks import rank_correlation
from robustness.estimates.table import assemble
from robustness.present import charts, forms, text
from robustness.present.notation import Notation
from robustness.present.publish import Presentation, publish
from robustness.present.selection import overall_selections, values_that_rank
from robustness.results import DIGEST_OF_IMAGES, JSON_NAME, Results, Table
from robustness.workdirs import workdir

FACETS = Facet('first', 'quantity', place='of {}'), Facet('second', 'other', place='and {}')
RANK_CORRELATION = Quantity(
  'rank_correlation', 'rank correlation', AMOUNT, low=-1, high=1, headline=True, facets=FACETS
)
OF_NETWORKS = PREPARATION_KEYS - SELECTION_KEYS
"""Keys in the description of data that may differ between networks, such as the size of images."""
NETWORKS, VALUES = 'networks', 'values of the networks'
"""What correlations are over, in place of a classifier, and the name of the table of values."""
MAX_PANELS = 24
"""Most scatter plots on the page."""


def main(arguments: Sequence[str]) -> int:
  """Writes and prints rank correlations between quantities over networks; returns 0.

  Args:
    arguments: the command line after `robustness correlations`.
  """
  parser = new_parser('robustness correlations', __doc__)
  parser.add_argument('paths', nargs='+', metavar='PATH', help='a workdir, or a folder of several')
  parser.add_argument('--out', type=expanded, required=True, help='where the page goes')
  options = parser.parse_args(arguments)
  workdir.refuse_results(options.out)
  values = values_by_quantity(options.paths)
  results = correlations(values)
  environment = workdir.environment(shlex.join(['robustness', 'correlations', *arguments]))
  pages = Presentation('Rank correlations', figures=lambda results: _figures(results, values))
  publish(options.out, results, pages, environment, {'paths': list(options.paths)})
  notation = Notation(RANK_CORRELATION)
  lines = _weakest_first(results).itertuples()
  rows = [[line.first, line.second, notation.bare(line), line.n] for line in lines]
  print(*text.lines(Table(('quantity', 'other', 'rank correlation', 'networks'), rows)), sep='\n')
  print(f'scatter plots: {options.out}/report.html')
  return 0


def values_by_quantity(paths: Sequence[str]) -> dict[str, pd.DataFrame]:
  """Returns the measured values of many networks, as one table for each quantity.

  Args:
    paths: finished workdirs or folders of workdirs, PATH or NAME=PATH.

  Returns:
    {name of a quantity: table with a row for each network}. A name is 'NAME: TASK: top-1 error',
    without 'NAME: ' for a path without name, and without 'TASK: ' for a run of a single study. The
    table is indexed by network. It has the columns of results, and `scale` (100 for percent, else
    1) and `better` (1 if higher values are better, else −1).

  Raises:
    InputError: a path has no results, a quantity is measured twice for the same network, or
      networks are measured with different settings or images.
  """
  names_of_networks: dict[str, str] = {}  # {description of a network: its name}
  rows_by_name: dict[str, dict[str, pd.Series]] = {}  # {name of a quantity: {network: row}}
  first_runs = _FirstRuns({}, {})
  for path in paths:
    name_of_path, location = label_and_path(path)
    for folder in _folders_with_results(location):
      results = Results.read(folder).over_seeds
      network_by_label = _networks_of_labels(results, folder, names_of_networks)
      for task, results_of_task in results.by_task.items():
        for quantity, words, values in _comparable_values(results_of_task, network_by_label):
          name = ': '.join(filter(None, (name_of_path, task, words)))
          networks = values.classifier.map(network_by_label)  # the network of each row of `values`
          rows = rows_by_name.setdefault(name, {})
          differences = first_runs.differences(name, results_of_task, results.image_digest(task))
          if differences or not rows.keys().isdisjoint(networks):
            reason = '; '.join(differences) or 'for the same network'
            raise InputError(
              f'{folder} measures {name} again, {reason}: give it another name, NAME={path}.'
            )
          better = 1 if quantity.better == 'higher' else -1
          values = values.assign(scale=quantity.scale, better=better)
          rows |= zip(networks, (row for _, row in values.iterrows()), strict=True)
  return {name: pd.DataFrame(rows).T for name, rows in rows_by_name.items()}


class _FirstRuns(NamedTuple):
  """Settings and images of the first run that measured each quantity."""

  protocols: dict[str, Facts]  # {name of a quantity: settings and data}
  digests: dict[tuple[str, str], str]  # {(name of a quantity, description of images): their digest}

  def differences(self, name: str, results: Results, digest: str) -> list[str]:
    """Returns how a run differs from the first run that measured a quantity; [] for the first run.

    Args:
      name: name of the quantity.
      results: results of the run, of a single study.
      digest: digest of the images; '' if unknown.
    """
    data = {key: value for key, value in results.data.items() if key not in OF_NETWORKS}
    protocol: Facts = {'settings': results.protocol, 'data': data}
    differences = differing_keys(self.protocols.setdefault(name, protocol), protocol)
    if digest:
      description_of_images = json.dumps(results.data, sort_keys=True)
      first_digest = self.digests.setdefault((name, description_of_images), digest)
      differences += differing_keys(first_digest, digest, DIGEST_OF_IMAGES)
    return differences


def _networks_of_labels(results: Results, folder: Path, names: dict[str, str]) -> dict[str, str]:
  """Returns {label of a classifier in a run: name of its network, unique over all runs}.

  Classifiers of two runs are the same network if all recorded facts are equal, such as the digest
  of the weights and the normalisation. Their labels may then differ. Without a digest, as for a
  Python function, labels must be equal too.

  Args:
    results: the results of the run.
    folder: the folder of the run. Its name or path is added to the name of a network that is not
      unique.
    names: {description of a network: its name} for the runs so far. New networks are added.
  """
  network_by_label = {}
  for classifier in results.classifiers:
    label = str(classifier['label'])
    description = network_of(classifier) or json.dumps(classifier, sort_keys=True)
    if description not in names:
      candidates = label, f'{folder.name}: {label}', f'{folder}: {label}'
      names[description] = next(name for name in candidates if name not in names.values())
    network_by_label[label] = names[description]
  return network_by_label


def _comparable_values(
  results: Results, labels: Collection[str]
) -> Iterator[tuple[Quantity, str, pd.DataFrame]]:
  """Yields the values that can be compared between networks of different runs.

  Args:
    results: the results of a run.
    labels: labels of the classifiers to include.

  Yields:
    (quantity, the value in words, such as 'top-1 error under fog', a row of results for each
    classifier).
  """
  for quantity in results.quantities:
    rows = values_that_rank(results, quantity)
    for selection in overall_selections(rows[rows.classifier.isin(list(labels))], quantity):
      yield quantity, selection.words, selection.rows


def _folders_with_results(path: Path) -> list[Path]:
  """Returns the folder itself if it has results, else all folders directly in it with results."""
  folders = [path] if (path / JSON_NAME).is_file() else []
  folders = folders or sorted(file.parent for file in path.glob(f'*/{JSON_NAME}'))
  if not folders:
    raise InputError(f'{path} holds no {JSON_NAME}: give finished workdirs, or a folder of them.')
  return folders


def correlations(values: Mapping[str, pd.DataFrame], confidence: float = 0.95) -> Results:
  """Returns the rank correlation between each two quantities, over networks.

  A correlation is positive if networks that are better in one quantity tend to be better in the
  other. It is NaN if one of the two quantities is the same for all networks.

  Args:
    values: {name of a quantity: table indexed by network}, with the columns `value` and `better` (1
      if higher values are better, else −1).
    confidence: confidence of the intervals, in (0, 1).

  Raises:
    InputError: no two quantities have two networks in common.
  """
  networks = dict.fromkeys(name for table in values.values() for name in table.index)
  # Values times ±1, so that higher is better in all.
  signed = {quantity: table.value * table.better for quantity, table in values.items()}
  rows = []
  for first, second in itertools.combinations(signed, 2):
    x, y = signed[first], signed[second]
    shared = [name for name in x.index if name in y.index]
    if len(shared) > 1:
      x, y = x.loc[shared].to_numpy(float), y.loc[shared].to_numpy(float)
      estimate = rank_correlation(x, y, confidence)
      facets = {'first': first, 'second': second}
      rows.append(estimate_row(NETWORKS, '', RANK_CORRELATION, facets, estimate, confidence))
  if not rows:
    raise InputError(
      f'{len(networks)} networks have no two quantities in common: give workdirs that measure the '
      'same networks by several quantities.'
    )
  cells = []
  for name in networks:
    measured = (float(t.value[name]) if name in t.index else None for t in values.values())
    cells.append([name, *measured])
  return Results(
    'correlations',
    classifiers=[],
    data={},
    settings={'confidence': confidence},
    tables={VALUES: Table(('network', *values), cells)},
    table=assemble([table_of_rows(rows)]),
    quantities=(RANK_CORRELATION,),
  )


def _figures(results: Results, values: Mapping[str, pd.DataFrame]) -> dict[str, charts.Picture]:
  """Returns the figures of the report, {file name: (figure, caption)}.

  The figure 'scatter' has scatter plots in which each point is a network. It shows the `MAX_PANELS`
  pairs of quantities with the weakest correlations. The other figures are charts of the
  correlations.

  Args:
    results: the rank correlations.
    values: {name of a quantity: table with a row for each network}.
  """
  weakest = _weakest_first(results).head(MAX_PANELS)
  pairs = list(zip(weakest['first'], weakest['second'], strict=True))
  labels = list(dict.fromkeys(name for table in values.values() for name in table.index))
  caption = 'Networks by pairs of quantities, the weakest rank correlations first.'
  figures = {'scatter': (forms.scatter_page(pairs, values, labels), caption)} if pairs else {}
  return {**figures, **charts.draw(results)}


def _weakest_first(results: Results) -> pd.DataFrame:
  """Returns the correlations without NaN, the smallest absolute value first."""
  table = results.table[results.table['value'].notna()]
  return table.loc[table['value'].abs().sort_values(kind='stable').index]
