"""Runs a client of the server from a test, whatever loop the test's process has: Playwright leaves one running."""

import asyncio
from concurrent.futures import ThreadPoolExecutor


def finished(make, seconds):
    """What the coroutine that `make()` gives returns, run by a loop in a thread of its own."""

    async def limited():
        return await asyncio.wait_for(make(), seconds)

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, limited()).result()
