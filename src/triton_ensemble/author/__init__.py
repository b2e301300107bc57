"""`triton-ensemble new` and `add-step`: a pipeline told step by step, at a terminal."""
