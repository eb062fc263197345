"""Training: `loop` has `fit`, `optimizer` the rates and freezing, `validation` the split and the validation loss."""
