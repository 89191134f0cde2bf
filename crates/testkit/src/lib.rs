//! Scripts, id normalisation and transcripts for testing an adapter or a consumer of agent events.
