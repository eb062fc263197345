"""What a model predicts, as tables, as frames and as scikit-learn estimators.

::

    prediction       `predict`: labels, or values at any places
    rows_to_predict  what heads predict from
    grids            what a targeted method predicts at places
    event_surprise   `surprise`: how unlikely each event was to a model
    predictor_answer  what a head is worth
    decisions        `decide`: on whom to act, and what it costs
    decision_options, decision_answer, caller_rules  its options, its answer, and whom a caller's rule acts on
    vectorizer       `EventVectorizer`; it needs scikit-learn
    event_estimators  `EventClassifier` and `EventRegressor`; they need scikit-learn
    event_estimator  what these share
"""

from typing import TYPE_CHECKING

from eventvec.first_use import import_at_first_use

if TYPE_CHECKING:
    from eventvec.predicting.decisions import decide as decide
    from eventvec.predicting.event_surprise import surprise as surprise
    from eventvec.predicting.prediction import predict as predict

import_at_first_use(
    __name__,
    {
        "eventvec.predicting.decisions": "decide",
        "eventvec.predicting.event_surprise": "surprise",
        "eventvec.predicting.prediction": "predict",
    },
)
