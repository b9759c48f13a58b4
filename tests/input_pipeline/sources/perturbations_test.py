"""CIFAR-10-P and ImageNet-P as released: frames and their order, subsets, what is refused."""

import numpy as np
import pytest

from input_pipeline.sources.perturbations import read_video
from robustness.corruptions.names import PERTURBATIONS
from tests.input_pipeline.domains import levels, read, whole
from tests.refusals import bad_setting, refused

LABELS = np.array([3, 8, 0], np.uint8)
FRAMES = {'rotate': 4, 'gaussian_noise': 3}
ORDER = ('gaussian_noise', 'rotate')


def arrays():
  rng = np.random.default_rng(0)
  return {k: rng.integers(0, 256, (3, n, 32, 32, 3), np.uint8) for k, n in FRAMES.items()}


@pytest.fixture
def folder(tmp_path):
  for name, array in {**arrays(), 'labels': LABELS}.items():
    np.save(tmp_path / f'{name}.npy', array)
  return tmp_path


def test_rows_go_by_perturbation_image_and_frame(folder):
  rows = read('cifar10_p', folder)
  stored = whole(rows)
  expected = np.concatenate([arrays()[name].reshape(-1, 32, 32, 3) for name in ORDER])
  np.testing.assert_array_equal(np.rint(stored['image'] * 255), expected)
  numbers = [PERTURBATIONS[name] for name in ORDER]
  assert stored['perturbation'].tolist() == [numbers[0]] * 9 + [numbers[1]] * 12
  assert stored['frame'].tolist() == [0, 1, 2] * 3 + [0, 1, 2, 3] * 3
  assert stored['base_id'].tolist() == [0] * 3 + [1] * 3 + [2] * 3 + [0] * 4 + [1] * 4 + [2] * 4
  np.testing.assert_array_equal(stored['label'], LABELS[stored['base_id']])
  assert rows.description['perturbations'] == [*ORDER] and rows.class_names[3] == 'cat'
  refused(bad_setting('config.data.num_images', 99), read, 'cifar10_p', folder, num_images=99)
  subset = whole(read('cifar10_p', folder, num_images=1))
  assert len(set(subset['base_id'])) == 1 and subset['frame'].tolist() == [0, 1, 2, 0, 1, 2, 3]


@pytest.mark.slow
def test_labels_are_those_of_the_test_set_of_tfds(folder, cifar10_dir):
  (folder / 'labels.npy').unlink()
  still = np.lib.stride_tricks.as_strided(
    np.zeros(1, np.uint8), (10_000, 2, 32, 32, 3), (0, 0, 0, 0, 0)
  )
  for name in FRAMES:
    np.save(folder / f'{name}.npy', still)
  rows = read('cifar10_p', folder, label_dataset='cifar10', data_dir=str(cifar10_dir), num_images=2)
  assert rows.num_examples == 8
  assert (
    np.bincount(read('cifar10_p', folder, label_dataset='cifar10').without_images()['label'])[3]
    == 4000
  )


def test_files_that_do_not_fit_are_named(folder):
  np.save(folder / 'labels.npy', LABELS[:2])
  refused(r'3 sequences of each .* has 2 labels', read, 'cifar10_p', folder)
  (folder / 'labels.npy').unlink()
  refused(
    'no labels.npy, as released: set config.data.cifar10_p.label_dataset="cifar10"',
    read,
    'cifar10_p',
    folder,
  )
  np.save(folder / 'labels.npy', LABELS)
  np.save(folder / 'tilt.npy', arrays()['rotate'][:2])
  refused(r'tilt.npy holds 2 sequences and .*noise.npy 3', read, 'cifar10_p', folder)
  np.save(folder / 'tilt.npy', arrays()['rotate'][0])
  refused(r'tilt.npy is uint8 of shape .*looks like CIFAR-10-C', read, 'cifar10_p', folder)
  np.save(folder / 'tilt.npy', arrays()['rotate'][:, :1])
  refused('sequences of tilt have 1 frame, and at least two', read, 'cifar10_p', folder)
  np.save(folder / 'tild.npy', arrays()['rotate'])
  refused("'tild', which is no perturbation: did you mean 'tilt'", read, 'cifar10_p', folder)


def write_video(path, frames):
  av = pytest.importorskip('av', reason='PyAV is not installed')
  path.parent.mkdir(parents=True, exist_ok=True)
  with av.open(str(path), 'w') as container:
    stream = container.add_stream('libx264', rate=1, options={'crf': '1'})
    stream.width = stream.height = 32
    stream.pix_fmt = 'yuv420p'
    for level in frames:
      image = np.full((32, 32, 3), level, np.uint8)
      container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format='rgb24')))
    container.mux(stream.encode())


def test_videos_are_read_frame_by_frame(tmp_path):
  grey = {'rotate': (40, 60, 80, 100), 'gaussian_noise': (90, 120, 150)}
  for name, frames in grey.items():
    for k, wnid in enumerate(('n01440764', 'n01443537')):
      write_video(tmp_path / name / wnid / f'val_{k}.mp4', [level + 50 * k for level in frames])
  rows = read('imagenet_p', tmp_path)
  stored = whole(rows)
  expected = [level + 50 * k for name in ORDER for k in (0, 1) for level in grey[name]]
  np.testing.assert_allclose(levels(stored['image']), expected, atol=2)
  assert stored['label'].tolist() == [0] * 3 + [1] * 3 + [0] * 4 + [1] * 4
  resized = whole(read('imagenet_p', tmp_path, resize=16, crop=16, num_images=1))
  assert resized['image'].shape == (7, 16, 16, 3)
  read_video.cache_clear()
  write_video(tmp_path / 'rotate/n01443537/val_1.mp4', (1, 2, 3))
  read_all = read('imagenet_p', tmp_path).batches(14)
  refused(r'val_1.mp4 has 3 frames, and others 4: fetch it again', list, read_all)
  video = tmp_path / 'rotate/n01443537/val_1.mp4'
  whole_file = video.read_bytes()
  for content, why in ((b'no video', 'cannot be opened'), (whole_file[:-9], 'is truncated')):
    read_video.cache_clear()
    video.write_bytes(content)
    refused(f'val_1.mp4 {why}', list, read('imagenet_p', tmp_path).batches(14))
  video.unlink()
  refused(r'rotate lacks n01443537/val_1.mp4', read, 'imagenet_p', tmp_path)
