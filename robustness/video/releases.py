"""The two published data sets of neighbor sets, and what they count.

Reference: Shankar et al., Do Image Classifiers Generalize Across Time?, 2021, table 1.
"""

VID, YTBB = 'ImageNet-Vid-Robust', 'YTBB-Robust'
RELEASES = {'imagenet_vid': VID, 'youtube_bb': YTBB}
"""Data sets by the label space of their classes."""
COUNTS = {
  VID: {(1109, 21_070): 'reviewed', (1314, 26_029): 'unreviewed'},
  YTBB: {(2030, 36_827): 'reviewed', (2467, 45_631): 'unreviewed'},
}
"""Whether sets are before their review, by the numbers of anchors and pairs."""


def title(space: str, anchors: int, pairs: int) -> str:
  """Returns which data set the sets of a label space are, or which they differ from, and counts;
  '' stands for other classes."""
  counted = f'{anchors} anchors, {pairs} pairs'
  if space not in RELEASES:
    return f'neighbor sets: {counted}'
  name = RELEASES[space]
  known = COUNTS[name].get((anchors, pairs))
  if known:
    return f'{name}, {known}: {counted}'
  published = ' or '.join(f'{a} and {p}' for a, p in COUNTS[name])
  return f'neighbor sets of {space}: {counted} ({name} has {published})'
