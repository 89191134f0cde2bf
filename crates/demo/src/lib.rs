//! Two sub-agents working side by side on real data, in one stream.
