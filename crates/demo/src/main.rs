//! The demo's binary. Everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    anabranch_demo::main()
}
