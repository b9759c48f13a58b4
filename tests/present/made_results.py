"""Results of two classifiers under corruptions, for the tests of tables, sentences and figures."""

from robustness.estimates.means import means
from robustness.estimates.quantity import ERROR
from robustness.estimates.table import assemble
from robustness.present.sentences import findings
from robustness.results import Results
from tests.estimates.means_test import made


def made_results() -> Results:
  """Returns errors of `first` and `second` on 200 images in fog and snow at three severities."""
  outcomes = made(seed=1, n=200)
  corrupted = (outcomes.views.corruption != 'clean').to_numpy()
  parts = [means(ERROR, outcomes, where=corrupted)]
  parts.append(means(ERROR, outcomes, ('corruption', 'severity'), test=True))
  parts.append(means(ERROR, outcomes, ('corruption',), where=corrupted))
  parts.append(means(ERROR, outcomes, ('severity',), where=corrupted, paired=False))
  classifiers = [{'label': label} for label in outcomes.labels]
  return Results('made', classifiers, {}, {}, table=assemble(parts), quantities=(ERROR,))


def sentences_of(results: Results) -> list[str]:
  """Returns the text of the findings on results."""
  return [finding.text for finding in findings(results)]
