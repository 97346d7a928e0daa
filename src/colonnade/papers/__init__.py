"""Methods that papers brought, on the same extension points that any package would have.

Gradient descent on shares (*Secure PCA*), coresets and vertical SAGA (*Coresets*), clustering by sketches and by randomised
reports, and moments from what each party perturbs by itself (*Primitives*, *Private vertical clustering*). One module for each
room of the core: ``laws``, ``steps``, ``private`` (the only one that runs where rows are), ``conversations``, ``protocols``,
``estimation``, ``methods`` and ``estimators``; ``draws`` has what follows from a seed.

Nothing in the core imports this package. It is loaded when a plan or a user first names something of it
(`colonnade.steps.kind.Registry`), so a study that needs none of it runs without it.
"""
