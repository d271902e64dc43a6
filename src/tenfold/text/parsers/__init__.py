"""What a model wrote, taken apart as it comes: reasoning, content and tool calls.

`completion_parser.py` has the parser that a server drives; `registry.py` knows every format by name and finds the one
of a chat template. Each tool format is a file with one generator that reads the text as if it were there whole
(`reader.py` waits for what is missing) and tells a `Sink` (`events.py`) what it found. A new format is a new file and a
line in the registry.
"""
