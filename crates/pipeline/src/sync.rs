//! What the merge shares between threads.
//!
//! The model check in `model/` compiles `merge.rs` beside a module of the same name, whose primitives take every order that
//! threads can.

pub(crate) use std::sync::{Mutex, atomic::AtomicBool};

pub(crate) use futures::task::AtomicWaker;
