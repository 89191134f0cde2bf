//! What the numbers were measured on.

use std::{fs, process::Command};

use serde::Serialize;

/// The machine and the tools, as the report names them.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// The processor's model.
    pub cpu: String,
    /// How many cores this process may use.
    pub cores: usize,
    /// The compiler.
    pub rustc: String,
    /// The kernel.
    pub kernel: String,
    /// How many processes wanted to run when the bench began, over a minute.
    pub load: String,
}

impl Machine {
    /// This one.
    #[must_use]
    pub fn this() -> Self {
        let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = info.lines().find(|line| line.starts_with("model name"));
        let model = model.and_then(|line| line.split_once(':')).map_or("unknown", |(_, model)| model.trim());
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        Self {
            cpu: model.to_owned(),
            cores: std::thread::available_parallelism().map_or(1, Into::into),
            rustc: said(Command::new("rustc").arg("--version")),
            kernel: said(Command::new("uname").arg("-sr")),
            load: load.split(' ').next().unwrap_or("unknown").to_owned(),
        }
    }
}

fn said(command: &mut Command) -> String {
    let output = command.output().map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&output).trim().to_owned()
}
