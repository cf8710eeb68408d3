"""What every worker of a server loads, loaded once in the process that they are forks of."""

import gc

import pyarrow.compute  # noqa: F401
import uvicorn  # noqa: F401

import server.app  # noqa: F401

# The collector would write to every object that it looks at, and end the sharing of its page.
gc.collect()
gc.freeze()
