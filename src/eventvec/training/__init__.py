"""Training.

::

    fitting      `fit`: a method, or labels
    loop         the loop, the folder, resuming
    state        the state of a training, its step and its checkpoint
    fit_options  the options of `fit`
    setup        from a configuration and data to a method that is ready to be trained
    label_rows   the rows from which labels are learned, as of their times
    fine_tuning  `fine_tune`: a run's encoder is trained further on labels
    optimizer    learning rates, and which weights are trained
    settings_tried  a training for each of several settings; the best is the result
    validation   which rows are trained on and which are held out
    calibration  temperatures for the probabilities of classes
    kept_weights  which epoch's weights a run has
"""

from typing import TYPE_CHECKING

from eventvec.first_use import import_at_first_use

if TYPE_CHECKING:
    from eventvec.training.fine_tuning import fine_tune as fine_tune
    from eventvec.training.fit_options import FitOptions as FitOptions
    from eventvec.training.fitting import fit as fit
    from eventvec.training.fitting import fit_head as fit_head
    from eventvec.training.head_options import HeadOptions as HeadOptions

import_at_first_use(
    __name__,
    {
        "eventvec.training.fine_tuning": "fine_tune",
        "eventvec.training.fit_options": "FitOptions",
        "eventvec.training.fitting": "fit fit_head",
        "eventvec.training.head_options": "HeadOptions",
    },
)
