"""Fresh vectors and predictions for one entity at a time, from a state store that stays open.

::

    pushes         what is applied at once, and what comes back
    checkpoints    the log beside the store, which a thread writes into it
    session        `open_state`: applies events as they come, and gives vectors and predictions
    serve_options  where a server listens, and its limits
    micro_batches  pushes that wait for the thread that applies them
    bodies         requests and answers of a server
    measures       what a server counts
    limits         who may ask a server, how often, how much, and for how long
    slow_heads     the time limit for the head of a request
    routes         the application of a server
    server         `serve`: the server, until the process is told to end
"""
