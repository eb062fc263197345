"""The recurrent kernel: GRU and LSTM over packed events, without work on padding.

::

    routing   which code runs: cuDNN, torch's own kernel or the cells below
    layer     all steps of one layer, forward and backward
    cells     the arithmetic of a step
    products  matrix products whose shapes suit the library
    pack      the order of events in which rows of like length lie together
    buffers   the buffer pool of a training run
"""
