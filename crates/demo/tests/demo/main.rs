//! The demo, as a library and as a program.

mod cli;
mod common;
mod figures;
mod front_page;
mod options;
mod stream;
