"""Answers to questions about text and pictures: from messages to prompts, from tokens to text."""
