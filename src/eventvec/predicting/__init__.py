"""What a run predicts, as tables, as frames and as a scikit-learn estimator.

::

    prediction      `predict`: labels, or values at any places
    grids           what a targeted method predicts at places
    event_surprise  `surprise`: how unlikely each event was to a run
    fine_tuned      a model of one label, which `EventVectorizer.fine_tune` returns
    frames          results in the library that the events came from
    vectorizer      `EventVectorizer`; it needs scikit-learn
    event_estimators  `EventClassifier` and `EventRegressor`; they need scikit-learn
    event_estimator  what these share
    labelled_rows   what they learn from                rows_to_predict  what they predict from
    families        the families of features            held_out_scores  scores on rows that chose nothing
    network_lessons  a network on the label as a family  labels_by_rule   earlier labels, from the events
    event_predictor  the models with their weights      predictor_files  the folder of a predictor
    predictor_answer  what a predictor is worth
"""

from typing import TYPE_CHECKING

from eventvec.first_use import import_at_first_use

if TYPE_CHECKING:
    from eventvec.predicting.event_surprise import surprise as surprise
    from eventvec.predicting.prediction import predict as predict

import_at_first_use(
    __name__,
    {
        "eventvec.predicting.event_surprise": "surprise",
        "eventvec.predicting.prediction": "predict",
    },
)
