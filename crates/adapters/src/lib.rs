//! Converts agent and sub-agent events to text, to tool call cards and to the protocols that frontends speak.
