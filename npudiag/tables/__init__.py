"""The tables: declared schemas, and the store that holds their rows."""
