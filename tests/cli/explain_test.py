"""`robustness NAME --help` prints every key of a config with its value and meaning."""

import re

import pytest

from robustness.__main__ import COMMANDS, main
from robustness.augment import AUGMENTATIONS
from robustness.cli import command_line
from robustness.cli.explain import explain, meanings
from robustness.config import packaged
from robustness.config.recipe import PART_KINDS
from tests.cases import cases

PREDICTIONS = ('calibration:workdir', 'video_pm_k:predictions')
KEY = re.compile(r'  (\S+) = (.*)')


def printed_keys(reference, *changes):
  """Returns the printed keys as {(section, key): (value, meaning)}."""
  config, _ = command_line.read([f'--config={reference}', *changes])
  lines = '\n'.join(explain(reference, (), config, ())).partition('\nkeys, as')[2].splitlines()
  keys, section = {}, ''
  for line, following in zip(lines, [*lines[1:], ''], strict=True):
    section = line.partition(';')[0] if line.startswith('config') else section
    if key := KEY.fullmatch(line):
      keys[section, key[1]] = key[2], following.removeprefix(' ' * 6)
  return keys


@pytest.mark.parametrize('reference', [*packaged.files(), *PREDICTIONS])
def test_every_key_of_a_config_has_a_meaning(reference):
  keys = printed_keys(reference)
  assert [key for key, (_, meaning) in keys.items() if not meaning or meaning[0] == ' '] == []
  sections = {section for section, _ in keys}
  assert 'config' in sections and any('study' in section for section in sections)
  assert len({section for section in sections if section.startswith('config.data')}) < 3


@pytest.mark.parametrize('kind', PART_KINDS)
def test_every_setting_of_a_named_part_has_a_meaning(kind):
  _, registry = PART_KINDS[kind]
  for part in registry.classes().values():
    assert set(part.__dataclass_fields__) <= set(meanings(part)), part


def test_changes_on_the_command_line_are_shown_with_the_parts_that_they_choose():
  section = 'config.classifiers.{natural,gaussian}.augment'
  keys = printed_keys('fourier_heatmap', "--config.classifiers.natural.augment.policy=('mixup',)")
  assert keys[section, 'policy'][0] == "('mixup',) | ('crop', 'gaussian')"
  assert (
    keys[f'{section}.mixup', 'alpha'][0] and keys[f'{section}.gaussian', 'sigma'][0] == '0.1 | 0.4'
  )
  assert (f'{section}.cutout', 'size') not in keys
  names = keys[section, 'policy'][1]
  assert all(name in names for name in list(AUGMENTATIONS.classes())[:2])


def test_the_command_prints_text_variants_and_flags(capsys):
  with pytest.raises(SystemExit) as ended:
    main(['accuracy:own', '--help'])
  output = capsys.readouterr().out
  assert ended.value.code == 0
  assert output.startswith('Top-1 and top-5 accuracy of any classifier on any source')
  variants = 'variants (accuracy:VARIANT), the default first: digits, own, both_ways'
  assert f'{variants}\nshown below: own' in output
  assert '--workdir\n' in output and '  top_k = ' in output
  assert main(['acuracy', '--help']) == 2


@cases(
  'word, keys',
  ('epsilon', ('--config.battery.attack.study.epsilon', '--config.battery.attack.study.epsilons')),
  ('severit', ('--config.battery.corruptions.study.severities',)),
)
def test_keys_are_found_by_a_word_with_their_task(capsys, word, keys):
  with pytest.raises(SystemExit, match='0'):
    main(['battery:digits', f'--help={word}'])
  lines = capsys.readouterr().out.splitlines()
  assert len(lines) < 60
  for key in keys:
    assert any(line.strip().startswith(f'{key} = ') for line in lines), lines


@cases(
  'word, expected',
  ('severity', ('imagenet_c  ', 'flip_rate', 'robustness corruption_error --help=severity')),
  (
    'cow',
    ('keys of a config: robustness CONFIG --help=cow, such as robustness accuracy --help=cow',),
  ),
)
def test_help_for_a_word_lists_parts_with_it_and_how_to_find_keys(word, expected, capsys):
  with pytest.raises(SystemExit, match='0'):
    main([f'--help={word}'])
  output = capsys.readouterr().out
  for text in expected:
    assert text in output


def test_a_word_of_no_key_names_the_nearest(capsys):
  with pytest.raises(SystemExit, match='0'):
    main(['accuracy', '--help=confidance'])
  assert "did you mean 'confidence'" in capsys.readouterr().out


@pytest.mark.parametrize('name', [*COMMANDS, 'neighbor-sets'])
def test_the_help_of_every_command_begins_with_its_purpose(name, capsys):
  try:
    status = main([name, '--help'])
  except SystemExit as ended:
    status = ended.code
  output = capsys.readouterr().out
  assert status == 0 and f'robustness {name.replace("-", "_")}' in output and len(output) > 100
