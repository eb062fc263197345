"""ExpCLR: is an encoder that learns from a dozen simple features worth more than the features?"""
