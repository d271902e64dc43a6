"""The filters and the methods of strings that chat templates may use."""

# fmt: off
FILTERS = (
    "abs", "capitalize", "count", "d", "default", "dictsort", "e", "escape", "first", "float", "format",
    "forceescape", "indent", "int", "items", "join", "last", "length", "list", "lower", "map", "max",
    "min", "reject", "rejectattr", "replace", "reverse", "safe", "select", "selectattr", "sort",
    "string", "title", "trim", "truncate", "unique", "upper",
)
# fmt: on
"""Of Jinja's own filters; the others build large values from small ones, or have no use here."""

# fmt: off
TEXT_FILTERS = (
    "string", "e", "escape", "forceescape", "safe", "lower", "upper", "title", "capitalize", "trim",
    "truncate",
)
# fmt: on
"""Of these, the ones that make text of any value, which is weighed first."""

# fmt: off
STR_METHODS = (
    "capitalize", "casefold", "center", "count", "endswith", "find", "format", "format_map", "index",
    "isalnum", "isalpha", "isascii", "isdecimal", "isdigit", "isidentifier", "islower", "isnumeric",
    "isspace", "istitle", "isupper", "join", "ljust", "lower", "lstrip", "partition", "removeprefix",
    "removesuffix", "replace", "rfind", "rindex", "rjust", "rpartition", "rsplit", "rstrip", "split",
    "splitlines", "startswith", "strip", "swapcase", "title", "upper", "zfill",
)
# fmt: on
"""Methods of str; those that can build large values are checked before they are called."""
