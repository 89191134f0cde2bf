//! The binary `anabranch`. Everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    anabranch_server::main()
}
