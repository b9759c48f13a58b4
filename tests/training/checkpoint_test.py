"""Checkpoints restore all bits, belong to one training, and are intact after an interruption."""

import json
import shutil
import time
from concurrent import futures

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from robustness.core.errors import InputError
from robustness.training import checkpoint
from robustness.training.checkpoint import Checkpoints, load_variables, newest_step
from robustness.training.state import TrainState
from tests.refusals import refused
from tests.training.conftest import TinyNet, assert_same

FACTS = {'architecture': 'tiny', 'class_names': ('a', 'b'), 'training': {'seed': 0, 'rate': 0.1}}


def _save(directory, states, facts=FACTS):
  with Checkpoints(directory, facts) as checkpoints:
    for state in states:
      checkpoints.save(state)


def _restored(directory, task):
  with Checkpoints(directory, FACTS) as checkpoints:
    return checkpoints.restore(task.state_shapes())


def _at(state, steps):
  return [state.replace(step=np.array(step, np.int32)) for step in steps]


@pytest.fixture
def state(make_task, start):
  """The state of a training at step 4, with an optimizer that has seen gradients."""
  (state,) = _at(start(make_task()), [4])
  other = jax.tree.map(lambda x: x + np.asarray(0.1, x.dtype), state.opt_state)
  return state.replace(opt_state=other)


@pytest.fixture
def saved(tmp_path, state):
  """A folder with a checkpoint of the state."""
  _save(tmp_path, [state])
  return tmp_path


def test_everything_comes_back_bit_for_bit(saved, state, make_task):
  restored = _restored(saved, make_task())
  assert isinstance(restored, TrainState)
  assert_same(restored, state)
  position = json.loads((saved / 'checkpoints/4/position/metadata').read_text())
  assert len(position.pop('sha256')) == 64
  assert position == {'step': 4}
  variables, facts = load_variables(saved)  # without the training
  assert_same(variables, state.variables)
  assert facts['architecture'] == 'tiny'
  shutil.copytree(saved / 'checkpoints/4', saved / 'checkpoints/6.orbax-checkpoint-tmp')
  assert_same(_restored(saved, make_task()), state)  # a save that was cut short changes nothing
  (saved / 'checkpoints/4/position/metadata').write_text(json.dumps(position))  # without its digest
  refused('it was altered', load_variables, saved)


def test_an_empty_directory_has_no_checkpoint_and_gets_the_facts(tmp_path, make_task):
  refused('holds no trained classifier', load_variables, tmp_path)
  assert _restored(tmp_path / 'a/b', make_task()) is None
  written = json.loads((tmp_path / 'a/b/classifier.json').read_text())
  assert written == {**FACTS, 'class_names': ['a', 'b']}
  refused('no finished checkpoint yet', load_variables, tmp_path / 'a/b')


def test_the_newest_of_two_stored_checkpoints_is_restored(tmp_path, state, make_task):
  _save(tmp_path, _at(state, (2, 4, 6)))
  assert {path.name for path in (tmp_path / 'checkpoints').iterdir()} == {'4', '6'}
  assert _restored(tmp_path, make_task()).step == 6
  shutil.rmtree(tmp_path / 'checkpoints/4/state')  # as if its deletion was interrupted
  (tmp_path / 'checkpoints/4/_CHECKPOINT_METADATA').unlink()
  assert_same(load_variables(tmp_path)[0], state.variables)


def test_memory_reused_by_the_caller_or_a_step_does_not_reach_the_checkpoint(tmp_path, state):
  cleared = jax.jit(lambda tree: jax.tree.map(lambda x: x * 0, tree), donate_argnums=0)
  for name, kind, reuse in (
    ('host', np.array, lambda held: jax.tree.map(lambda x: x.fill(0), held.params)),
    ('step', jnp.array, lambda held: jax.block_until_ready(cleared(held))),
  ):
    held = jax.tree.map(kind, state)
    with Checkpoints(tmp_path / name, FACTS) as checkpoints:
      checkpoints.save(held)
      reuse(held)
    assert_same(load_variables(tmp_path / name)[0], state.variables)


def test_another_architecture_is_refused_with_the_keys_that_differ(saved, make_task):
  message = r"step 4.*another architecture.*batch_stats\.bn\.mean: 'float32\[6\]' → None"
  refused(rf'{message}; .*and \d+ more', _restored, saved, make_task(TinyNet(norm=False)))


def test_a_directory_of_another_training_is_refused_with_the_keys(saved, state):
  other = {**FACTS, 'training': {'seed': 1, 'rate': 0.1}}
  refused(r'training\.seed: 0 → 1', Checkpoints, saved, other)
  shutil.rmtree(saved / 'checkpoints')
  _save(saved, [state], other)  # without a checkpoint there is nothing to mix


def test_a_training_that_states_no_digest_of_its_columns_is_resumed(saved):
  with Checkpoints(saved, {**FACTS, 'columns_sha256': 'ab'}):
    assert 'columns_sha256' not in json.loads((saved / 'classifier.json').read_text())


@pytest.mark.filterwarnings('ignore::pytest.PytestUnraisableExceptionWarning')
@pytest.mark.parametrize('name', ['state/manifest.ocdbt', 'state/_METADATA', 'position/metadata'])
def test_a_damaged_checkpoint_is_named_with_the_fix(saved, make_task, name):
  damaged = saved / 'checkpoints/4' / name
  damaged.write_bytes(damaged.read_bytes()[:10])
  message = r'cannot read the checkpoint .*checkpoints/4.*Delete that folder'
  refused(message, _restored, saved, make_task())
  time.sleep(0.3)  # Orbax's other reads end after its event loop is closed and warn of it


@pytest.mark.filterwarnings('ignore::pytest.PytestUnraisableExceptionWarning')
def test_no_flipped_bit_changes_weights_or_facts(saved):
  expected = load_variables(saved)
  root = saved / 'checkpoints/4'
  files = [saved / 'classifier.json', *(f for f in sorted(root.rglob('*')) if f.is_file())]
  random, rejected = np.random.default_rng(0), 0
  for trial in range(25):
    file = files[trial % len(files)]
    content = file.read_bytes()
    if not content:
      continue
    damaged = bytearray(content)
    damaged[random.integers(len(content))] ^= 1 << int(random.integers(8))
    file.write_bytes(damaged)
    try:
      variables, facts = load_variables(saved)
      assert_same(variables, expected[0])
      assert facts == expected[1]
    except InputError:
      rejected += 1
    file.write_bytes(content)
  assert rejected >= 5
  assert_same(load_variables(saved)[0], expected[0])


def test_altered_weights_are_refused(tmp_path, state, make_task, monkeypatch):
  with monkeypatch.context() as patched:
    patched.setattr(checkpoint, '_digest', lambda *unused: '0' * 64)
    _save(tmp_path, [state])
  refused(r'checkpoints/4: it was altered: .*Delete that folder', load_variables, tmp_path)
  refused('it was altered', _restored, tmp_path, make_task())


@pytest.mark.slow
def test_readers_may_list_checkpoints_while_they_are_saved_and_deleted(tmp_path, state):
  steps = []
  with futures.ThreadPoolExecutor(1) as pool:
    saving = pool.submit(_save, tmp_path, _at(state, range(12)))
    while not saving.done():
      steps.append(newest_step(tmp_path) or 0)
    saving.result()
  assert steps == sorted(steps) and newest_step(tmp_path) == 11
