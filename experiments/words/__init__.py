"""Search by words as a person would say them: queries by hand, and rules that say which histories fit."""
