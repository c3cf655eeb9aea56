"""The machine npudiag runs on: what it is, what runs on it, how it is used over time.

What is found out becomes text of kinds that the parsers read, so that a look at the machine, a bundle of it and
somebody's saved outputs of the vendor's tools are judged by the same rules.
"""
