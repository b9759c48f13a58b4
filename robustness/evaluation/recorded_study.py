"""Reconstructs the study of finished results; runs a Python file only if the user names it.

Results may come from someone else. If their study, or a part of it, is in a Python file, reading
the results does not run that file. The user can allow it with `--study=FILE.py:NAME`.
"""

import argparse
import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, Self

from robustness.core import settings, user_code
from robustness.core.errors import InputError
from robustness.core.typing import Facts, PlainValue
from robustness.evaluation import study as studies
from robustness.evaluation.outcomes import Evaluation, versions
from robustness.evaluation.records import RecordsReader
from robustness.evaluation.study import Findings, ImageShape, Study
from robustness.evaluation.views import ViewTable

FLAG = '--study'
"""The option with which a user allows the Python file of a study."""
WHY_NOT = (
  'its study, or a part of it, is in a Python file, which reading results does not run; for a '
  f'study type {FLAG}=FILE.py:NAME if you trust the file'
)


@dataclasses.dataclass(frozen=True)
class RecordedStudy(Study):
  """A study that stands for a study in a user's Python file, which is not run.

  Results of someone else may name such a file. The settings come from the results and the records.
  Figures and findings are the defaults of `Study`.

  Attributes:
    name: the name of the study in the results.
    stated: name, settings and facts of the study in results.json (`Study.describe`).
    recorded: the settings and facts that change records, from the header of the records
      (`Study.recording`).
    half_width: half width of the interval of the error, as a fraction, at which a view needed no
      more images; 0 if all images were shown.
    num_views: number of views in the records; the views are called 'view 0', 'view 1', ...
  """

  name: str = ''  # type: ignore[misc]
  stated: Facts = dataclasses.field(default_factory=dict)
  recorded: Facts = dataclasses.field(default_factory=dict)
  half_width: float = 0.0
  num_views: int = 1

  def describe(self) -> dict[str, PlainValue]:
    """Returns the name, settings and facts of the study, as the results state them."""
    return dict(self.stated)

  @property
  def recording(self) -> dict[str, PlainValue]:
    """The settings that change records, such as severities, as the records state them."""
    return dict(self.recorded)

  def is_recorded_as(self, recorded: Facts) -> bool:
    """Returns whether the settings of the results agree with the settings of some records.

    Settings that only the results have are ignored.

    Args:
      recorded: the settings in the header of the records.
    """
    return all(self.stated.get(key) == value for key, value in recorded.items())

  def of_records(self, identity: Facts, num_views: int) -> Self:
    """Returns a copy with the settings and the number of views of some records.

    Args:
      identity: header of the records (`RecordsReader.identity`), with the settings at 'study'.
      num_views: number of views of the records.
    """
    return dataclasses.replace(self, recorded=identity.get('study', {}), num_views=num_views)

  def view_table(self, image_shape: ImageShape) -> ViewTable:
    """Returns the views, which have the names 'view 0', 'view 1', ..."""
    return ViewTable.of([f'view {number}' for number in range(self.num_views)])

  def by_row(self, records: RecordsReader, image_shape: ImageShape) -> ViewTable:
    """Returns the views of the records, which have the names 'view 0', 'view 1', ...

    Their `units` state which stored images are versions of the same image.
    """
    numbered = dataclasses.replace(self, num_views=records.layout.num_views)
    return dataclasses.replace(numbered.view_table(image_shape), units=versions(records))

  def reduce(self, evaluations: Sequence[Evaluation], image_shape: ImageShape) -> Findings:
    """Raises InputError: only the code in the user's file can compute results from records."""
    raise InputError(f'{WHY_NOT}.')


def study_of_results(
  section: Facts, name: str, description: Any, user_reference: str = ''
) -> Study:
  """Returns the study that finished results are of, without running files that only results name.

  The result is one of three:

  * the study in the user's file, if the user names the file;
  * a study of this project, with the settings of the run;
  * a `RecordedStudy`, if the results name a file. It has only what the results state.

  Args:
    section: the section `study` of the config of the run.
    name: the name of the study in the results.
    description: name, settings and facts of the study in the results, see `Study.describe`.
    user_reference: FILE.py:NAME from the option `--study`, '' without it. The file is run if the
      results are of a study called NAME.

  Raises:
    InputError: the section has an unknown study or setting, or `user_reference` names no study.
  """
  settings.check_sections({'study': section}, ('study',), 'config')
  values = dict(section)
  if _have_same_name(str(values.get('name', '')), user_reference):
    study = studies.STUDIES.find(user_reference, FLAG)
    values.pop('name')
    return settings.parse(study, values, 'config.study')
  facts = dict(description) if isinstance(description, dict) else {}
  try:
    with user_code.files_refused():
      study = studies.STUDIES.find(values.get('name', ''), 'config.study.name')
      current_section = with_current_keys(study, without_facts(section))
      return studies.from_config(_with_recorded_references(current_section, facts))
  except user_code.FileRefusedError:  # the study or one of its parts is in a file
    # Results are read with these settings alone. `stated` has the others, unchecked.
    recorded_settings = {key: facts[key] for key in ('confidence', 'half_width') if key in facts}
    recorded = settings.parse(RecordedStudy, recorded_settings, 'settings')
    return dataclasses.replace(recorded, name=name, stated=facts)


def _with_recorded_references(section: Facts, stated: Facts) -> Facts:
  """Replaces references to Python files in a section `study`, so that no file is run.

  References have the form FILE.py:NAME and are entries of lists, such as the list of corruptions.
  Each becomes a `RecordedReference` with the file's name and digest from the results. If the
  results lack the file, the reference is unchanged.

  Args:
    section: the section `study` of the config of the run.
    stated: name, settings and files of the study in the results, see `Study.describe`.
  """
  files = stated.get('files')  # {NAME: {'file': ..., 'file_sha256': ...}}
  if not isinstance(files, dict):
    return section

  def as_recorded(word: PlainValue) -> PlainValue:
    """Returns an entry of a list in the config, with a reference to a Python file replaced.

    A reference FILE.py:NAME becomes a `RecordedReference` with the digest of the file that the
    results state; no file is run. Other entries, and references to files that the results lack, are
    unchanged.
    """
    if not user_code.is_reference(word):
      return word
    file = files.get(user_code.part_name(word))
    return user_code.RecordedReference.with_file(word, file) if isinstance(file, dict) else word

  replaced = dict(section)
  for key, value in section.items():
    if isinstance(value, list):
      replaced[key] = [as_recorded(word) for word in value]
  return replaced


def without_facts(section: Facts) -> dict[str, PlainValue]:
  """Removes keys that are no settings from the section `study` of a run's config.

  Earlier versions of `measure` wrote facts about the study into this section.
  """
  return {key: value for key, value in section.items() if key not in ('frost', 'pictures', 'files')}


def with_current_keys(study: type[Study], section: Facts) -> Facts:
  """Converts a section `study` that an earlier version wrote to the keys of this version.

  A section with missing keys or values of other types is returned unchanged.

  Args:
    study: class of the study, which defines the conversion (`Study.from_earlier`).
    section: the section of the config.
  """
  try:
    with user_code.files_refused():  # no Python file that the section names is run
      return study.from_earlier(section)
  except (KeyError, TypeError):
    return section


def add_flag(parser: argparse.ArgumentParser) -> None:
  """Adds the option `--study` to the parser of a command that reads results."""
  text = 'the study of that NAME, a file that you trust; files that results name are not run'
  parser.add_argument(FLAG, default='', metavar='FILE.py:NAME', help=text)


def refuse_other_study(typed: str, sections: Sequence[Facts]) -> None:
  """Raises InputError if the option `--study` names a study, and no results are of this study.

  Args:
    typed: the value of the option, FILE.py:NAME; '' if it was not given.
    sections: the section `study` of the config of each run.
  """
  names = [str(section.get('name', '')) for section in sections]
  if typed and not any(_have_same_name(name, typed) for name in names):
    stated = ', '.join(dict.fromkeys(map(repr, names)))
    raise InputError(
      f'{FLAG} is {typed!r}, and the results are of {stated}: give FILE.py:NAME with that NAME.'
    )


def refuse_unused_file(typed: str, result_studies: Iterable[Study]) -> None:
  """Raises InputError if the option `--study` names a file that no results have used.

  Args:
    typed: the value of the option, FILE.py:NAME; '' if it was not given.
    result_studies: the study of each run's results.
  """
  name = user_code.part_name(typed) if typed else ''
  # the file `typed` is the only one that is ever run: a study with `file` is from it
  if typed and not any(study.file and study.name == name for study in result_studies):
    raise InputError(
      f'{FLAG} is {typed!r}, and none of these results are of such a study: give '
      'FILE.py:NAME with the NAME of theirs.'
    )


def _have_same_name(reference: str, other: str) -> bool:
  """Returns whether two references FILE.py:NAME have the same NAME."""
  are_references = user_code.is_reference(reference) and user_code.is_reference(other)
  return are_references and user_code.part_name(reference) == user_code.part_name(other)
