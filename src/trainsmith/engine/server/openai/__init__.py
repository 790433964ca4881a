"""OpenAI's chat completions, completions and models, and vLLM's token-in-token-out endpoint, over the host.

What these protocols have and the engine has not (penalties, grammars, images, top logprobs, forced tool
calls) is refused with a 400 that names it, never ignored. Fields that are unknown are ignored, as OpenAI's
and vLLM's servers do.
"""
