"""ExpCLR: when is an encoder worth more than the experts' features that it learned from?"""
