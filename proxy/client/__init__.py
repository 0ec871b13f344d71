"""The thin client's machinery: whom to ask, what to do with an answer, how calls reach a proxy."""
