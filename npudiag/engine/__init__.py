"""The rule engine: loads rules, matches signatures, runs queries, yields matches."""
