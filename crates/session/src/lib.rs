//! Decides what enters a session's stream of events, once and in order, and closes what is open.
