"""Tests PyTorch modules as classifiers: outputs, gradients, and attacks compared with foolbox's."""

import logging

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from robustness import parallel
from robustness.attacks.ddn import DDN
from robustness.attacks.fmn import FMN
from robustness.attacks.pgd import PGD
from robustness.evaluation.records import Records
from robustness.models.classifier import Classifier
from robustness.parallel import MeshParallel, PmapParallel
from tests.cases import cases
from tests.networks import CLASSES, SHAPE, tiny_rows
from tests.refusals import refused

torch = pytest.importorskip('torch', reason='wraps PyTorch modules')
nn = torch.nn

IMAGES = np.random.default_rng(0).random((7, *SHAPE), np.float32)
MEAN, STD = (0.5, 0.4, 0.3), (0.2, 0.3, 0.4)


def module(classes: int = 4) -> nn.Module:
  """Returns a convolution, a batch norm and a linear layer in evaluation mode."""
  torch.manual_seed(0)
  layers = (nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(inplace=True))
  pooled = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, classes))
  return nn.Sequential(*layers, *pooled).eval()


def wrapped(network: nn.Module, **options) -> Classifier:
  return Classifier.from_torch(network, SHAPE, CLASSES, **options)


def assert_close(actual, expected) -> None:
  assert np.ptp(expected) > 1e-4
  np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


@cases('batch_size', 2, 64)
def test_logits_and_layers_match_the_module(batch_size):
  network = module()
  ours = wrapped(network, mean=MEAN, std=STD, batch_size=batch_size, head='5')
  inputs = torch.from_numpy((IMAGES - np.float32(MEAN)) / np.float32(STD)).permute(0, 3, 1, 2)
  assert_close(ours.predict(IMAGES), network(inputs).detach().numpy())
  assert ours.layers == ('0', '1', '2', '3', '4', 'features', '5', 'logits')
  names = ours.select_layers(('0', '1', 'features', 'logits'))
  _, outputs = jax.jit(lambda x: ours.apply(None, x, names))(IMAGES)
  assert_close(outputs['0'], network[0](inputs).permute(0, 2, 3, 1).detach().numpy())
  normalised = network[:2](inputs).permute(0, 2, 3, 1).detach().numpy()
  assert normalised.min() < 0  # the ReLU that follows changes them in place
  assert_close(outputs['1'], normalised)
  assert_close(outputs['features'], network[:5](inputs).detach().numpy())
  refused("no layer '8'", ours.select_layers, ('8',))


class LogitsInside(nn.Module):
  def __init__(self) -> None:
    super().__init__()
    self.logits = module()

  def forward(self, images):
    return 10 * self.logits(images)


class RowsForAll(nn.Module):
  """Returns 3 rows for any images, as many as the images that modules are checked on."""

  def forward(self, images):
    return torch.ones(3, 4)


class WithRowsForAll(nn.Module):
  def __init__(self) -> None:
    super().__init__()
    self.rows, self.network = RowsForAll(), module()

  def forward(self, images):
    return self.network(images) + self.rows(images)[:1]


def test_an_output_without_an_axis_for_the_images_is_no_layer():
  ours = wrapped(WithRowsForAll().eval())
  assert 'network' in ours.layers
  assert 'rows' not in ours.layers


def test_the_layer_logits_is_the_output_also_if_a_submodule_has_that_name():
  ours = wrapped(LogitsInside().eval())
  assert_close(ours.predict(IMAGES), 10 * wrapped(module()).predict(IMAGES))
  outputs = ours.apply(None, IMAGES, ('logits',))[1]
  assert_close(outputs['logits'], ours.predict(IMAGES))


def test_modules_may_be_called_under_inference_mode():
  network = module()
  expected = wrapped(network).predict(IMAGES)
  with torch.inference_mode():
    np.testing.assert_array_equal(wrapped(network).predict(IMAGES), expected)


@cases('layers', (), ('0', 'features'))
def test_gradients_match_autograd_under_vmap_and_in_pieces(layers):
  network, weights = module(), torch.arange(28.0).reshape(7, 4)
  ours = wrapped(network, batch_size=3, head='5')

  def value(image, weight):
    logits, outputs = ours.apply(None, image[None], layers)
    return (logits[0] * weight).sum() + sum((outputs[name] ** 2).sum() for name in layers)

  actual = jax.jit(jax.vmap(jax.grad(value)))(IMAGES, weights.numpy())
  x = torch.tensor(IMAGES, requires_grad=True)
  inputs = x.permute(0, 3, 1, 2)
  expected = (network(inputs) * weights).sum()
  if layers:
    expected = expected + (network[0](inputs) ** 2).sum() + (network[:5](inputs) ** 2).sum()
  expected.backward()
  assert_close(actual, x.grad.numpy())


@pytest.mark.slow
@pytest.mark.parametrize('kind', [MeshParallel, PmapParallel])
def test_records_do_not_depend_on_devices_and_batches(kind, tmp_path):
  from tests.evaluation.runner_test import evaluator

  columns_by_run = []
  for number, batch_size in enumerate((3, 64)):
    network = module()
    network[5].weight.data *= 50  # so that classes differ
    ours = wrapped(network, mean=MEAN, std=STD, batch_size=batch_size)
    runner = evaluator(kind(), classifier=ours, layers=('3',))
    assert runner.parallel.num_devices == 1, 'threads of several devices would wait for each other'
    records = Records(tmp_path / str(number), runner.layout(21, 8, 7), {})
    runner.evaluate(tiny_rows(), records)
    names = 'prediction', 'probability', 'layer_change/3'
    columns_by_run.append({name: records.column(name) for name in names})
  first, second = columns_by_run
  assert len(np.unique(first['prediction'])) > 1
  for name, values in first.items():
    np.testing.assert_allclose(second[name], values, rtol=1e-5, atol=1e-6)


def test_large_images_on_one_of_eight_devices_cause_no_deadlock():
  big = np.random.default_rng(0).random((16, 224, 224, 3), np.float32)
  network = nn.Sequential(nn.Conv2d(3, 4, 7, 4), nn.AdaptiveAvgPool2d(1), nn.Flatten()).eval()
  ours = Classifier.from_torch(network, big.shape[1:], CLASSES)
  devices = parallel.create('jit', 1)

  def step(images):
    return jax.vmap(jax.grad(lambda x: ours.apply(None, x[None], ())[0][0, 1]))(images)

  compiled = devices.compile(step, ('batch',), 'batch')
  actual = [devices.gather(compiled(devices.put_batch(big))) for _ in range(3)]
  assert np.ptp(actual[0]) > 0
  np.testing.assert_array_equal(actual[0], actual[2])


class InPlace(nn.Module):
  """Doubles the images that it gets in place."""

  def __init__(self) -> None:
    super().__init__()
    self.network = module()

  def forward(self, images):
    return self.network(images.mul_(2))


class Spoilt(nn.Module):
  """A module with a function after its logits that makes them unusable."""

  def __init__(self, spoil) -> None:
    super().__init__()
    self.network, self.spoil = module(), spoil

  def forward(self, images):
    return self.spoil(self.network(images))


def on_two_devices() -> nn.Module:
  return nn.Sequential(module(), nn.Linear(4, 4, device='meta')).eval()


def scripted() -> nn.Module:
  with pytest.warns(DeprecationWarning):
    return torch.jit.script(nn.Flatten())


@cases(
  'make, message',
  (lambda: module().train(), r'torch is in training mode \(first the module\): call module.eval'),
  (lambda: nn.Sequential(*module()[:5], nn.Linear(8, 4)), 'training mode'),
  (lambda: InPlace().eval(), r'changes its images in place.*images\.clone'),
  (lambda: nn.Sequential(nn.ReLU(inplace=True), module()).eval(), 'changes its images in place'),
  (lambda: module(5), r'gives \(3, 5\) for 3 images and 4 class names; it must give \(3, 4\)'),
  (lambda: Spoilt(lambda x: x * torch.nan).eval(), 'NaN or infinity'),
  (lambda: Spoilt(lambda x: x.argmax(1, True).expand(-1, 4)).eval(), 'int64; logits are floats'),
  (lambda: Spoilt(lambda x: x.detach().numpy()).eval(), 'gives ndarray, not a torch.Tensor'),
  (lambda: Spoilt(lambda x: x.detach()).eval(), 'no gradient.*from_callable'),
  (lambda: Spoilt(lambda x: x + torch.rand(1)).eval(), 'other logits when it is called again'),
  (lambda: Spoilt(lambda x: x[:, None][:3, 0, :, 9]).eval(), 'failed on images .*IndexError'),
  (on_two_devices, 'arrays on cpu and meta.*one device'),
  (lambda: module().double(), r'0\.weight is torch.float64: call module\.float'),
  (lambda: len, 'builtin_function_or_method, not a torch.nn.Module.*from_callable'),
  (scripted, 'not a plain torch.nn.Module.*from_callable'),
)
def test_unsuitable_modules_are_refused_in_one_line(make, message):
  message = refused(message, wrapped, make())
  assert '\n' not in message


class Failing(nn.Module):
  """Raises `error` in the pass that `failing_pass` names, 'forward' or 'backward'."""

  def __init__(self) -> None:
    super().__init__()
    self.network, self.failing_pass = module(), ''
    self.error: BaseException = RuntimeError('no memory\nand pages more')

  def forward(self, images):
    self.fail_in('forward')
    logits = self.network(images)
    if logits.requires_grad:
      logits.register_hook(lambda _: self.fail_in('backward'))
    return logits

  def fail_in(self, current_pass):
    if self.failing_pass == current_pass:
      raise self.error


def assert_no_warning(caplog) -> None:
  assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@cases('fails_in, step', ('forward', 'predict'), ('forward', 'records'), ('backward', 'gradient'))
def test_errors_of_a_module_in_a_run_are_one_line(fails_in, step, tmp_path, caplog):
  from tests.evaluation.runner_test import evaluator

  network = Failing().eval()
  ours = wrapped(network, name='mine')
  network.failing_pass = fails_in
  runner = evaluator(MeshParallel(), classifier=ours)

  def gradient():
    with ours.host_errors():
      return np.asarray(jax.jit(jax.grad(lambda x: ours.apply(None, x, ())[0].sum()))(IMAGES))

  calls = {
    'predict': lambda: ours.predict(IMAGES),
    'records': lambda: runner.evaluate(tiny_rows(), Records(tmp_path, runner.layout(21), {})),
    'gradient': gradient,
  }
  message = r'^mine: it failed on images \[\d+, \d+, \d+, 3\]: RuntimeError: no memory \(Call it '
  assert '\n' not in refused(message, calls[step])
  assert_no_warning(caplog)


@cases('step', 'predict', 'records')
def test_ctrl_c_in_a_module_stops_the_run_without_a_warning(step, tmp_path, caplog):
  from tests.evaluation.runner_test import evaluator

  network = Failing().eval()
  ours = wrapped(network, name='mine')
  network.failing_pass, network.error = 'forward', KeyboardInterrupt()
  runner = evaluator(MeshParallel(), classifier=ours)
  with pytest.raises(KeyboardInterrupt):
    if step == 'predict':
      ours.predict(IMAGES)
    else:
      runner.evaluate(tiny_rows(), Records(tmp_path, runner.layout(21), {}))
  assert_no_warning(caplog)


def test_bad_arguments_are_refused():
  refused('batch_size of torch is 0', wrapped, module(), batch_size=0)
  refused("no module 'fc'", wrapped, module(), head='fc')


def test_weights_are_identified_with_their_buffers():
  network = module()
  first, again = wrapped(network).provenance, wrapped(module()).provenance
  # convolution 3·3·3·8 + 8, norm 2·8, linear layer 8·4 + 4
  assert first == again and first['parameters'] == 8 * 27 + 8 + 16 + 36
  network[1].running_mean += 1
  assert wrapped(network).provenance['sha256'] != first['sha256']


class Normalised(nn.Module):
  """A network behind the normalisation of its images by channel."""

  def __init__(self, network, mean, std) -> None:
    super().__init__()
    self.network = network
    self.register_buffer('mean', torch.tensor(mean).reshape(3, 1, 1))
    self.register_buffer('std', torch.tensor(std).reshape(3, 1, 1))

  def forward(self, images):
    return self.network((images - self.mean) / self.std)


@pytest.fixture(scope='module')
def resnet20(shared_dir):
  """Returns the published ResNet-20, as a PyTorch module that normalises its images and as ours."""
  from benchmarks.auto_attack_against_authors import networks
  from robustness.models import catalog

  (file,) = (shared_dir / 'data/weights').glob('cifar10_resnet20-*.th')
  peer, native = networks(str(file))
  architecture = catalog.get('resnet20')
  return Normalised(peer, architecture.mean, architecture.std).eval(), native


CIFAR10 = ('plane', 'car', 'bird', 'cat', 'deer', 'dog', 'frog', 'horse', 'ship', 'truck')


def foolbox_samples(network):
  """Returns foolbox, its model of a network, and its 20 images of CIFAR-10 and their labels."""
  foolbox = pytest.importorskip('foolbox', reason='compares with foolbox')
  peer = foolbox.PyTorchModel(network, bounds=(0, 1), device=torch.device('cpu'))
  return foolbox, peer, *foolbox.utils.samples(peer, dataset='cifar10', batchsize=20)


def arguments_of_attacks(images, labels):
  """Returns keys, images with channels last and labels, as our attacks take them."""
  keys = jax.random.split(jax.random.key(0), len(images))
  return keys, images.permute(0, 2, 3, 1).numpy(), jnp.asarray(labels.numpy(), jnp.int32)


@cases(
  'norm, epsilon, steps, size',
  ('linf', 2 / 255, 1, 2 / 255),
  ('linf', 2 / 255, 5, 0.5 / 255),
  ('l2', 0.1, 5, 0.025),
)
@pytest.mark.filterwarnings('ignore::DeprecationWarning')  # raised inside foolbox
def test_attacks_match_foolbox_on_the_same_module(norm, epsilon, steps, size, resnet20):
  network, _ = resnet20
  foolbox, peer, images, labels = foolbox_samples(network)
  kind = foolbox.attacks.LinfPGD if norm == 'linf' else foolbox.attacks.L2PGD
  theirs = kind(abs_stepsize=size, steps=steps, random_start=False)
  _, (expected,), (success,) = theirs(peer, images, labels, epsilons=[epsilon])
  expected = expected.permute(0, 2, 3, 1).numpy()
  ours = Classifier.from_torch(network, (32, 32, 3), CIFAR10)
  attack = PGD(norm=norm, epsilon=epsilon, steps=steps, step_size=size, random_start=False)
  keys, clean, targets = arguments_of_attacks(images, labels)

  def logits(x):
    return ours.apply(None, x, ())[0]

  attacked = np.asarray(jax.jit(lambda x: attack(keys, logits, x, targets))(clean))
  assert np.abs(attacked - clean).max() > epsilon / 10
  # Rounding changes the direction of each step in l2, so differences grow with the steps.
  np.testing.assert_allclose(attacked, expected, atol=1e-6 if norm == 'linf' else 2e-5)
  fooled = ours.predict(attacked).argmax(1) != labels.numpy()
  np.testing.assert_array_equal(fooled, success.numpy())
  assert 5 <= fooled.sum() <= 20, 'the attack succeeds on enough images to be compared'


@pytest.mark.slow
@cases('attack, kind', (FMN('linf', steps=30), 'LInfFMNAttack'), (DDN(steps=30), 'DDNAttack'))
@pytest.mark.filterwarnings('ignore::DeprecationWarning')  # raised inside foolbox
def test_smallest_distances_match_foolbox(attack, kind, resnet20):
  network, native = resnet20
  foolbox, peer, images, labels = foolbox_samples(network)
  theirs = getattr(foolbox.attacks, kind)(steps=30)
  _, attacked, success = theirs(peer, images, labels, epsilons=None)
  order = np.inf if attack.norm == 'linf' else 2
  expected = np.linalg.norm((attacked - images).flatten(1).numpy(), order, axis=1)
  keys, clean, targets = arguments_of_attacks(images, labels)

  def logits(x):
    return native.forward(native.variables, x, ())[0]

  distance, _ = jax.jit(lambda x: attack.nearest(keys, logits, x, targets))(clean)
  assert success.all() and np.isfinite(distance).all()
  # Rounding sends single images on other paths, so some distances may differ by more than 5 %.
  ratio = np.asarray(distance / np.maximum(expected, 1e-12))[expected > 0]
  assert np.median(ratio) == pytest.approx(1, abs=0.01)
  assert (np.abs(ratio - 1) < 0.05).mean() >= 0.8
