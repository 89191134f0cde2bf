//! Agents and their sub-agents over HTTP, as runs of AG-UI.
