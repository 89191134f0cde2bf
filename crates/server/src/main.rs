//! The binary `anabranch`.

fn main() {}
