"""Workdirs, the folders of runs.

`workdir` says what a workdir holds, and creates, locks and describes it while a run writes it.
`finished_workdir` reads the studies, results and records in it afterwards.
"""
