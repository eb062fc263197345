"""eventvec beside pytorch-lifestream, in one run: `python -m benchmarks.peer [TABLE] [--small] [--json]`.

__main__    the command line       tables      what is compared, in turns, and what was expected
data        the same card transactions, windows and vectors for both sides
worker      a process that holds one side, times its works inside, and answers over a pipe
ours        the works of eventvec          theirs      the works of pytorch-lifestream, in an environment of its own
"""
