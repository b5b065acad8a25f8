"""The built-in methods: a module with a record METHOD for each. `fewer.ilm.registry` finds them."""
