"""Hostile bytes for every decoder that a peer, another process or a disk reaches.

    targets.py       the table: name -> decoder, its errors, its seeds, its bounds
    judge.py         what must hold of every input
    corpus.py        inputs that reach something that no other one reaches, one file a target
    mutation.py      inputs made of others, by seed: what the tests run
    coverage.py      which lines follow each other in a run, and how many
    atheris_run.py   libFuzzer's loop over one target, or over all: a process of its own
    __main__.py      `python -m tests.fuzz TARGET --minutes 20`: by hand, keeps what it finds

Where targets get their seeds: tests/golden, and the encoders beside the decoders.
"""
