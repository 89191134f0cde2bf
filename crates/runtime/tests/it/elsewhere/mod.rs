//! Children that run elsewhere: whatever comes from there, they end once and nobody else is harmed.

mod again;
mod asking;
mod edges;
mod nonsense;
mod places;
mod stops;
mod support;
