//! `cargo xtask counts`: counts the instructions that an event, a frame, a line and a child take, and compares them with
//! those that are committed. No noise of the machine moves them, so they are the gate that times cannot be.
//!
//! gungraun runs each case under callgrind at two numbers of items; the difference, per item, is the count. Another
//! compiler or C library counts otherwise: there the nearest committed counts are shown and nothing fails.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use clap::Args;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::metadata::{Depth, Metadata};
use crate::process;

/// The runner has to be of the library's version, which `bench/counts/Cargo.toml` pins.
const RUNNER: &str = "0.20.0";

/// Where the counts are committed.
const FOLDER: &str = "bench/counts/committed";

/// How much more may be counted than was committed.
const TOLERANCE: f64 = 0.03;

/// What becomes of the counts.
#[derive(Debug, Args)]
pub(crate) struct CountsArgs {
    /// Commit to these counts: writes them for this compiler and C library
    #[arg(long)]
    accept: bool,
}

/// Counts under one compiler and C library.
#[derive(Debug, Default, Deserialize, Serialize)]
struct Counts {
    /// Instructions for each item.
    instructions: BTreeMap<String, f64>,
}

/// Counts, prints and compares; fails where the same compiler and C library counted fewer.
pub(crate) fn run(args: &CountsArgs) -> Result<ExitCode, Error> {
    if Command::new("valgrind").arg("--version").stdout(Stdio::null()).status().is_err() {
        eprintln!(
            "valgrind is missing; get it from your system's packages (Debian: apt-get install valgrind)"
        );
        return Ok(ExitCode::FAILURE);
    }
    let metadata = Metadata::load(Depth::Members)?;
    let (root, target) = (&metadata.workspace_root, &metadata.target_directory);
    let runner = runner(target)?;
    let home = target.join("bench/gungraun");
    // What was counted before is no part of what is read below.
    fs::remove_dir_all(&home).ok();
    let mut bench = process::cargo();
    bench.args(["bench", "--quiet", "--locked", "-p", "anabranch-bench-counts", "--manifest-path"]);
    bench.arg(root.join("bench/Cargo.toml")).arg("--target-dir").arg(target.join("bench"));
    bench.args(["--", "--save-summary=json"]);
    bench.env("GUNGRAUN_RUNNER", runner).env("GUNGRAUN_HOME", &home);
    process::output(&mut bench)?;
    let counted = read(&home)?;

    let key = key()?;
    let file = root.join(FOLDER).join(format!("{key}.json"));
    if args.accept {
        write(&file, &counted)?;
        println!("{FOLDER}/{key}.json has these counts now; the commit that brings them says why");
    }
    println!("{key}; the profiles are in {}", home.display());
    if let Some(committed) = committed(&file)? {
        if compare(&counted, &committed) {
            return Ok(ExitCode::SUCCESS);
        }
        println!("not as committed; where that has its reason: cargo xtask counts --accept");
        return Ok(ExitCode::FAILURE);
    }
    let (name, other) = nearest(&root.join(FOLDER), &key)?;
    println!("nothing is committed for this compiler and C library; beside those of {name}:");
    compare(&counted, &other);
    Ok(ExitCode::SUCCESS)
}

/// The runner's path; it is built where it is missing.
fn runner(target: &Path) -> Result<PathBuf, Error> {
    let folder = target.join("tools").join(format!("gungraun-runner-{RUNNER}"));
    let program = folder.join(format!("bin/gungraun-runner{}", std::env::consts::EXE_SUFFIX));
    if !program.exists() {
        println!("building gungraun-runner {RUNNER}, once; it takes some minutes");
        let mut install = process::cargo();
        install.args(["install", "--quiet", "--locked", &format!("gungraun-runner@{RUNNER}"), "--root"]);
        process::output(install.arg(&folder))?;
    }
    Ok(program)
}

/// What tells one place where counts are comparable from another: host, compiler, C library.
fn key() -> Result<String, Error> {
    let said = process::output(Command::new("rustc").arg("-vV"))?;
    let said = String::from_utf8_lossy(&said);
    let line = |name: &str| {
        said.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("unknown").trim().to_owned()
    };
    let libc = Command::new("getconf").arg("GNU_LIBC_VERSION").output();
    let libc = libc.map(|output| String::from_utf8_lossy(&output.stdout).trim().replace(' ', "-"));
    let libc = libc.ok().filter(|libc| !libc.is_empty()).unwrap_or_else(|| "libc-unknown".to_owned());
    Ok(format!("{}-rustc-{}-{libc}", line("host:"), line("release:")))
}

/// The summaries that gungraun left, as instructions for each item.
fn read(home: &Path) -> Result<Counts, Error> {
    let mut cases: BTreeMap<String, Vec<(u64, u64)>> = BTreeMap::new();
    for path in summaries(home) {
        let text = fs::read_to_string(&path).map_err(|source| unread(&path, source))?;
        let summary: Summary = serde_json::from_str(&text)?;
        let Some(point) = summary.point() else {
            return Err(Error::Unreadable { command: format!("gungraun-runner {RUNNER}"), output: text });
        };
        cases.entry(summary.function_name).or_default().push(point);
    }
    let mut counts = Counts::default();
    for (case, mut points) in cases {
        points.sort_unstable();
        if let [(few, less), (many, more)] = points[..]
            && few < many
        {
            let each = to_f64(more.saturating_sub(less)) / to_f64(many - few);
            counts.instructions.insert(case, (each * 10.0).round() / 10.0);
        }
    }
    // A level is what the budget is about.
    if let (Some(deep), Some(shallow)) =
        (counts.instructions.get("passed_at_5"), counts.instructions.get("passed_at_1"))
    {
        let level = (deep - shallow) / 4.0;
        counts.instructions.insert("passed_per_level".to_owned(), (level * 10.0).round() / 10.0);
    }
    if counts.instructions.is_empty() {
        return Err(Error::Unreadable {
            command: format!("gungraun-runner {RUNNER}"),
            output: format!("no summary in {}", home.display()),
        });
    }
    Ok(counts)
}

/// Every `summary.json` below a folder.
fn summaries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found = Vec::new();
    for path in entries.map(|entry| entry.path()) {
        if path.is_dir() {
            found.extend(summaries(&path));
        } else if path.file_name().is_some_and(|name| name == "summary.json") {
            found.push(path);
        }
    }
    found
}

/// One case at one number of items, as gungraun writes it: what of it is used.
#[derive(Deserialize)]
struct Summary {
    function_name: String,
    /// The expression that made the case: it ends with the number of items, `counted::made(1_000)`.
    description: Option<String>,
    profiles: Vec<serde_json::Value>,
}

impl Summary {
    /// The number of items, and the instructions.
    fn point(&self) -> Option<(u64, u64)> {
        let description = self.description.as_deref()?;
        let items: String = description.rsplit('(').next()?.chars().filter(char::is_ascii_digit).collect();
        let counted = self.profiles.iter().find_map(|profile| {
            profile.pointer("/data/total/metrics/Ir/values/new").and_then(serde_json::Value::as_u64)
        });
        Some((items.parse().ok()?, counted?))
    }
}

/// What is committed in a file, where there is one.
fn committed(file: &Path) -> Result<Option<Counts>, Error> {
    if !file.exists() {
        return Ok(None);
    }
    let text = fs::read_to_string(file).map_err(|source| unread(file, source))?;
    Ok(Some(serde_json::from_str(&text)?))
}

/// The committed counts whose key begins most like this one.
fn nearest(folder: &Path, key: &str) -> Result<(String, Counts), Error> {
    let alike = |name: &str| name.bytes().zip(key.bytes()).take_while(|(a, b)| a == b).count();
    let names = fs::read_dir(folder).into_iter().flatten().flatten();
    let names =
        names.filter_map(|entry| entry.file_name().to_str()?.strip_suffix(".json").map(str::to_owned));
    let Some(name) = names.max_by_key(|name| alike(name)) else {
        return Ok(("nobody".to_owned(), Counts::default()));
    };
    let counts = committed(&folder.join(format!("{name}.json")))?.unwrap_or_default();
    Ok((name, counts))
}

fn write(file: &Path, counts: &Counts) -> Result<(), Error> {
    let mut text = serde_json::to_string_pretty(counts)?;
    text.push('\n');
    let folder = file.parent().unwrap_or(file);
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(file, text))
        .map_err(|source| Error::Write { path: file.display().to_string(), source })
}

fn unread(path: &Path, source: std::io::Error) -> Error {
    Error::Read { path: path.display().to_string(), source }
}

/// What a count is beside the committed one.
#[derive(Debug, PartialEq, Eq)]
enum Beside {
    Within,
    /// Fewer by so much that committing to it keeps it.
    Fewer,
    More,
    /// Counted and not committed, or committed and not counted.
    Alone,
}

fn judge(counted: Option<f64>, committed: Option<f64>) -> Beside {
    match (counted, committed) {
        (Some(counted), Some(committed)) if counted > committed * (1.0 + TOLERANCE) => Beside::More,
        (Some(counted), Some(committed)) if counted < committed * (1.0 - TOLERANCE) => Beside::Fewer,
        (Some(_), Some(_)) => Beside::Within,
        _ => Beside::Alone,
    }
}

/// Prints a line for each case; whether all are within the committed ones.
fn compare(counted: &Counts, committed: &Counts) -> bool {
    println!("{:<20} {:>12} {:>12}", "instructions each", "counted", "committed");
    let names: std::collections::BTreeSet<_> =
        counted.instructions.keys().chain(committed.instructions.keys()).collect();
    let mut is_within = true;
    for name in names {
        let (new, old) = (counted.instructions.get(name).copied(), committed.instructions.get(name).copied());
        let shown = |count: Option<f64>| count.map_or_else(|| "-".to_owned(), |count| format!("{count:.1}"));
        let change = new
            .zip(old)
            .map_or_else(String::new, |(new, old)| format!("{:+.1} %", (new / old - 1.0) * 100.0));
        let verdict = match judge(new, old) {
            Beside::Within => "",
            Beside::Fewer => "  fewer: --accept keeps it",
            Beside::More => "  MORE",
            Beside::Alone => "  ALONE",
        };
        is_within &= matches!(judge(new, old), Beside::Within | Beside::Fewer);
        println!("{name:<20} {:>12} {:>12} {change:>9}{verdict}", shown(new), shown(old));
    }
    is_within
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn to_f64(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_in_a_hundred_more_are_within() {
        assert_eq!(judge(Some(1_030.0), Some(1_000.0)), Beside::Within);
        assert_eq!(judge(Some(1_031.0), Some(1_000.0)), Beside::More);
        assert_eq!(judge(Some(969.0), Some(1_000.0)), Beside::Fewer);
    }

    #[test]
    fn a_case_that_is_not_committed_or_not_counted_is_told() {
        assert_eq!(judge(Some(1.0), None), Beside::Alone);
        assert_eq!(judge(None, Some(1.0)), Beside::Alone);
        let counts = |name: &str| Counts { instructions: [(name.to_owned(), 1.0)].into() };
        assert!(compare(&counts("a"), &counts("a")));
        assert!(!compare(&counts("a"), &counts("b")));
    }

    #[test]
    fn a_summary_says_how_many_items_and_instructions() {
        let summary: Summary = serde_json::from_value(serde_json::json!({
            "function_name": "made",
            "description": "(counted :: made(1_000))",
            "profiles": [{ "data": { "total": { "metrics": { "Ir": { "values": { "new": 42 } } } } } }],
        }))
        .unwrap();
        assert_eq!(summary.point(), Some((1_000, 42)));
    }
}
