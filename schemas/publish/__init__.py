"""Published documents.

asyncapi  the AsyncAPI document
export    writes JSON Schemas and the AsyncAPI document to `schemas/published`
"""
