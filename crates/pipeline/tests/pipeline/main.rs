//! The pipeline's public behaviour, through its public API.

mod auto_traits;
mod call;
mod drops;
mod emit;
mod function;
mod gate;
mod injection;
mod laws;
mod layers;
mod merge;
mod polls;
mod side_by_side;
mod support;
mod wakes;
