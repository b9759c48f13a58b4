"""Tests reading the sequences of CIFAR-10-P and ImageNet-P in the released layouts."""

import numpy as np
import pytest

from input_pipeline.sources.perturbations import read_video
from robustness.corruptions.names import PERTURBATIONS
from tests.input_pipeline.domains import full_batch, levels, read
from tests.refusals import bad_setting, refused

LABELS = np.array([3, 8, 0], np.uint8)
FRAMES = {'rotate': 4, 'gaussian_noise': 3}  # number of frames of a sequence
ORDER = ('gaussian_noise', 'rotate')  # of the published table


def arrays():
  """Returns {perturbation: frames of three sequences, uint8 [3, frames, 32, 32, 3]}."""
  rng = np.random.default_rng(0)
  return {k: rng.integers(0, 256, (3, n, 32, 32, 3), np.uint8) for k, n in FRAMES.items()}


@pytest.fixture
def folder(tmp_path):
  """Returns a folder with `arrays` and labels."""
  for name, array in {**arrays(), 'labels': LABELS}.items():
    np.save(tmp_path / f'{name}.npy', array)
  return tmp_path


def test_rows_are_ordered_by_perturbation_image_and_frame(folder):
  rows = read('cifar10_p', folder)
  stored = full_batch(rows)
  expected = np.concatenate([arrays()[name].reshape(-1, 32, 32, 3) for name in ORDER])
  np.testing.assert_array_equal(np.rint(stored['image'] * 255), expected)
  numbers = [PERTURBATIONS[name] for name in ORDER]
  assert stored['perturbation'].tolist() == [numbers[0]] * 9 + [numbers[1]] * 12
  assert stored['frame'].tolist() == [0, 1, 2] * 3 + [0, 1, 2, 3] * 3
  assert stored['base_id'].tolist() == [0] * 3 + [1] * 3 + [2] * 3 + [0] * 4 + [1] * 4 + [2] * 4
  np.testing.assert_array_equal(stored['label'], LABELS[stored['base_id']])
  assert rows.description['perturbations'] == [*ORDER] and rows.class_names[3] == 'cat'


def test_frames_may_have_changed_if_their_file_has(folder):
  rows = read('cifar10_p', folder)
  files = [rows._images.file(index) for index in (0, 8, 9, 20)]
  assert files == [str(folder / f'{ORDER[number]}.npy') for number in (0, 0, 1, 1)]
  assert rows.may_have_changed(0, slice(0, 1))


def test_a_subset_takes_complete_sequences(folder):
  refused(bad_setting('config.data.num_images', 99), read, 'cifar10_p', folder, num_images=99)
  subset = full_batch(read('cifar10_p', folder, num_images=1))
  assert len(set(subset['base_id'])) == 1 and subset['frame'].tolist() == [0, 1, 2, 0, 1, 2, 3]


@pytest.mark.slow
def test_labels_are_read_from_the_test_set_of_tfds(folder, cifar10_dir):
  (folder / 'labels.npy').unlink()
  # 10,000 black sequences of two frames that take no memory
  black = np.lib.stride_tricks.as_strided(
    np.zeros(1, np.uint8), (10_000, 2, 32, 32, 3), (0, 0, 0, 0, 0)
  )
  for name in FRAMES:
    np.save(folder / f'{name}.npy', black)
  rows = read('cifar10_p', folder, label_dataset='cifar10', data_dir=str(cifar10_dir), num_images=2)
  assert rows.num_examples == 8
  labels = read('cifar10_p', folder, label_dataset='cifar10').without_images()['label']
  assert np.bincount(labels)[3] == 1000 * 2 * 2, 'images, perturbations and frames of a class'


def test_arrays_of_other_shapes_and_missing_labels_are_refused(folder):
  np.save(folder / 'labels.npy', LABELS[:2])
  refused(r'3 sequences of each .* has 2 labels', read, 'cifar10_p', folder)
  (folder / 'labels.npy').unlink()
  message = 'no labels.npy, as released: set config.data.cifar10_p.label_dataset="cifar10"'
  refused(message, read, 'cifar10_p', folder)
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
  """Writes a video of 32 x 32 grey frames of these levels."""
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


FRAME_LEVELS = {'rotate': (40, 60, 80, 100), 'gaussian_noise': (90, 120, 150)}


@pytest.fixture
def videos(tmp_path):
  """Returns a folder of two sequences of each perturbation; levels of the second are 50 higher."""
  for name, frames in FRAME_LEVELS.items():
    for k, wnid in enumerate(('n01440764', 'n01443537')):
      write_video(tmp_path / name / wnid / f'val_{k}.mp4', [level + 50 * k for level in frames])
  return tmp_path


def test_videos_are_read_frame_by_frame(videos):
  rows = read('imagenet_p', videos)
  # rows 0 to 5 are of two videos of the first perturbation, 3 frames each
  files = [str(file) for file in sorted((videos / ORDER[0]).glob('*/*.mp4'))]
  assert [rows._images.file(index) for index in (0, 2, 3)] == [files[0], files[0], files[1]]
  stored = full_batch(rows)
  expected = [level + 50 * k for name in ORDER for k in (0, 1) for level in FRAME_LEVELS[name]]
  np.testing.assert_allclose(levels(stored['image']), expected, atol=2)
  assert stored['label'].tolist() == [0] * 3 + [1] * 3 + [0] * 4 + [1] * 4
  resized = full_batch(read('imagenet_p', videos, resize=16, crop=16, num_images=1))
  assert resized['image'].shape == (7, 16, 16, 3)


def test_damaged_shortened_and_missing_videos_are_refused(videos):
  def read_all():
    read_video.cache_clear()
    return full_batch(read('imagenet_p', videos))

  video = videos / 'rotate/n01443537/val_1.mp4'
  write_video(video, (1, 2, 3))
  refused('val_1.mp4 has 3 frames, and others 4: fetch it again', read_all)
  content = video.read_bytes()
  for changed_content, message in (
    (b'no video', 'val_1.mp4 cannot be opened'),
    (content[:-9], 'val_1.mp4 is truncated'),
  ):
    video.write_bytes(changed_content)
    refused(message, read_all)
  video.unlink()
  refused('rotate lacks n01443537/val_1.mp4', read_all)
