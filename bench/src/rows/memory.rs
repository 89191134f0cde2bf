//! What is held: measured by a program of its own, whose allocator counts.

use std::process::Command;

use serde::Deserialize;

use crate::report::{Budget, Named, Row, Unit};

/// A row as the program prints it.
#[derive(Deserialize)]
struct Printed {
    id: String,
    what: String,
    value: f64,
    unit: Unit,
    budget: Budget,
    source: String,
    beside: Vec<Named>,
}

/// What the plot of what is held shows: names and points.
#[must_use]
pub fn points() -> Vec<(String, Vec<(f64, f64)>)> {
    let printed = program().and_then(|program| Command::new(program).arg("points").output());
    printed.ok().and_then(|output| serde_json::from_slice(&output.stdout).ok()).unwrap_or_default()
}

fn program() -> std::io::Result<std::path::PathBuf> {
    std::env::current_exe().map(|this| this.with_file_name("anabranch-bench-memory"))
}

/// The rows of the program that lies beside this one.
#[must_use]
pub fn rows() -> Vec<Row> {
    let printed = program().and_then(|program| Command::new(program).output());
    let ids = ["duplicates", "idle", "stalled", "allocations"];
    let absent =
        |why: String| ids[1..].iter().map(|id| Row::absent(id, "what is held", why.clone())).collect();
    match printed {
        Ok(output) if output.status.success() => {
            let rows: Vec<Printed> = serde_json::from_slice(&output.stdout).expect("it prints rows");
            let known = |printed: Printed| {
                let Printed { id, what, value, unit, budget, source, beside } = printed;
                let id = ids.into_iter().find(|known| *known == id).expect("it prints these rows");
                let mut row = Row::new(id, what, value, unit, budget).source(source);
                row.beside = beside;
                row
            };
            rows.into_iter().map(known).collect()
        }
        Ok(output) => {
            absent(format!("the program that weighs failed: {}", String::from_utf8_lossy(&output.stderr)))
        }
        Err(error) => absent(format!("the program that weighs is not built: {error}")),
    }
}
