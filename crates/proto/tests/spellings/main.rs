//! Both spellings: what is written is read back, what was captured is kept, what is wrong is named with its line.

mod bad_input;
mod captured;
mod dice;
mod foreign;
mod generated;
mod kept;
mod laws;
mod owners;
