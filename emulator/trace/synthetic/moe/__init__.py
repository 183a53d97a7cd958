"""A mixture of experts: routed tokens, dispatch and combine."""
