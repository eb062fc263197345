"""eventvec beside pytorch-lifestream, measured in one run: `python -m benchmarks.peer [TABLE] [--small] [--json]`.

::

    __main__       the command line
    comparisons    the tables, each a comparison of both sides
    shared_inputs  the same card transactions, windows and vectors for both sides
    worker         a process for one side, which measures seconds and answers over a pipe
    ours           the tasks of eventvec
    theirs         the tasks of pytorch-lifestream, in an environment of its own
"""
