//! The pipeline's public behaviour, through its public API.

mod auto_traits;
mod call;
mod emit;
mod function;
mod injection;
mod laws;
mod layers;
mod merge;
mod polls;
mod side_by_side;
mod support;
mod wakes;
