"""What codes and messages mean: catalogues under ``rules/codes``, decoders, and a search over rules and catalogues.

`npudiag.knowledge.lookup.lookup` answers for one code, `npudiag.knowledge.search.search` for words.
"""
