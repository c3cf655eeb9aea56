"""What frameworks accept, and changes that the user's one accepts.

`registry` knows options, variables and what they need; `stack` tells which framework and release a job uses;
`resolve` turns the remedies of rules into changes for it; `explain` describes one option.
"""
