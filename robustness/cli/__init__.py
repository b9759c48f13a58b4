"""Every command: runs, reports, comparisons and the tools of the video sets."""
