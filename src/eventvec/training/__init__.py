"""Training.

::

    loop         `fit`: the loop, run folders, resuming
    state        the state of a training, its step and its checkpoint
    fit_options  the options of `fit`
    setup        from a configuration and data to a method that is ready to be trained
    label_rows   the rows from which labels are learned, as of their times
    fine_tuning  `fine_tune`: a run's encoder is trained further on labels
    optimizer    learning rates, and which weights are trained
    settings_tried  a training for each of several settings, of which one is kept
    validation   which rows are trained on and which are held out
    calibration  temperatures for the probabilities of classes
    kept_weights  which epoch's weights a run has
"""

from eventvec.training.fine_tuning import fine_tune
from eventvec.training.fit_options import FitOptions
from eventvec.training.loop import fit

__all__ = ["FitOptions", "fine_tune", "fit"]
