"""Clients for asyncio."""
