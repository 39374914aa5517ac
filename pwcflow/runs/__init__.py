"""A run over a video: what it writes and where, its record, and how a later run goes on.

`VideoOutputs` says what is wanted, `VideoSink` writes it, `provenance` keeps `pwcflow.json` beside
the flows, and `earlier` finds out what a run before has left.
"""
