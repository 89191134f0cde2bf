//! Agents and sub-agents in one process: sessions, spawn_subagent, limits, time-outs and cancellation.
