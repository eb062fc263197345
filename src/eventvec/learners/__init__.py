"""What learns labels from features: trees, linear models, how they are weighed, and how they are scored.

::

    task        the task of a column of labels: binary, multiclass or numeric; several labels
    inputs      checks of features, groups and options
    prepared    the learners of a predictor, and features that are prepared for all their trainings
    single_learners  boosted trees, a linear model and nearest neighbours, with fixed settings
    fitted      these after training
    tree_arrays  boosted trees as arrays, which are checked before trees are made from them again
    stacking    several learners on several sets of features, weighed by predictions of rows they were not trained on
    held_out_scores  the score of a predictor on rows that chose nothing
    prediction_measures  log loss, Brier score, calibration; what the first rows hold; errors of numbers, with intervals
    number_intervals  intervals around predicted numbers
    row_groups  the values of a column of groups as codes and names
    subgroup_measures  for whom predictions are good: the measures of groups, and whether one differs
    folds       training and test positions, and shares of the labels
    metrics     scores of predictions
    resampled_scores  scores on resampled test entities, of which intervals are made
    parallel    work side by side in threads
"""
