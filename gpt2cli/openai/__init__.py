"""Requests and answers in the form of OpenAI's API, wherever they come from."""
