//! Runs an agent's tool calls and turns what they yield into one stream of events.
