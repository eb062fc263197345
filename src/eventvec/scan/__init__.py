"""The recurrent kernel: GRU and LSTM over packed events, without work on padding.

::

    routing   the choice of code: cuDNN, torch's own kernel or the cells below
    layer     all steps of one layer, forward and backward
    cells     the arithmetic of a step
    matmul    matrix products with shapes and precisions that suit the library
    pack      the order of events, in which rows of similar length are contiguous
    buffers   the buffer pool of a training run
"""
