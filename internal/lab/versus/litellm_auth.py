"""Knows callers by their keys, as LiteLLM's database would, with the limits of keys.json."""
import json

from fastapi import HTTPException
from litellm.proxy._types import UserAPIKeyAuth

with open("keys.json") as file:
    limits = json.load(file)


async def who(request, api_key):
    if api_key not in limits:
        raise HTTPException(status_code=401, detail="unknown key")
    return UserAPIKeyAuth(api_key=api_key, **limits[api_key])
