"""Neighbor sets of video frames: built, read, reviewed, scored, and detection on them.

`pm_k` is the accuracy on the worst of the frames near an anchor.
"""

from typing import TYPE_CHECKING

from robustness.core import lazy

if TYPE_CHECKING:
  from robustness.video.neighbor_estimates import pm_k

__all__ = ['pm_k']
__getattr__ = lazy.attributes(__name__, {'pm_k': 'neighbor_estimates'})
