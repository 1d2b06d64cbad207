"""The published JSON Schemas, as docs/schema has them."""
