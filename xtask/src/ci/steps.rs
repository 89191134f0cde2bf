//! Which commands prove a change, and in which order: the cheap ones first.

use crate::ci::changed::Affected;
use crate::metadata::Package;
use crate::model;
use crate::process::quoted;

/// One step of the proof.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    /// What the step is called in headers and in the summary.
    pub(crate) name: String,
    /// What it does.
    pub(crate) action: Action,
}

/// What a step does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// Runs `cargo`.
    Cargo {
        /// The subcommand and its arguments.
        arguments: Vec<String>,
        /// Variables that are set for it.
        environment: &'static [(&'static str, &'static str)],
    },
    /// Runs the tidiness checks in this process.
    Tidy,
}

/// Tests compare snapshots and never write one; a proof that edits what it proves is none.
const TESTING: &[(&str, &str)] = &[("CI", "true"), ("INSTA_UPDATE", "no")];

const DOCUMENTING: &[(&str, &str)] = &[("RUSTDOCFLAGS", "-D warnings")];

/// Libraries that people take alone; their tests must not live from a feature that a sibling turns on.
const TESTED_ALONE: &[&str] =
    &["anabranch-proto", "anabranch-pipeline", "anabranch-session", "anabranch-adapters"];

/// Projects that use the workspace's crates as those of others do.
const OUTSIDE: &[&str] = &["examples/own-adapter/Cargo.toml"];

/// Conversations of agents that misbehave; as many as take a few seconds.
const SIMULATING: &[&str] =
    &["run", "--profile", "simulate", "--locked", "-p", "anabranch-simulate", "--", "--seeds", "2000"];

impl Step {
    fn cargo(name: impl Into<String>, arguments: &[&str]) -> Self {
        Self::cargo_with(name, arguments, &[])
    }

    fn cargo_with(
        name: impl Into<String>,
        arguments: &[&str],
        environment: &'static [(&'static str, &'static str)],
    ) -> Self {
        let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        Self { name: name.into(), action: Action::Cargo { arguments, environment } }
    }

    fn tidy() -> Self {
        Self { name: "tidy".to_owned(), action: Action::Tidy }
    }

    /// What to type to repeat the step.
    pub(crate) fn command_line(&self) -> String {
        match &self.action {
            Action::Tidy => "cargo xtask tidy".to_owned(),
            Action::Cargo { arguments, environment } => {
                let variables = environment.iter().map(|(name, value)| format!("{name}={}", quoted(value)));
                let words = arguments.iter().map(|argument| quoted(argument));
                variables.chain(["cargo".to_owned()]).chain(words).collect::<Vec<_>>().join(" ")
            }
        }
    }
}

/// Every step, for the workspace's own packages.
pub(crate) fn full(members: &[&Package]) -> Vec<Step> {
    let mut steps = vec![
        format(),
        Step::tidy(),
        Step::cargo(
            "clippy",
            &["clippy", "--workspace", "--all-targets", "--all-features", "--locked", "--", "-D", "warnings"],
        ),
        Step::cargo_with("test", &["test", "--workspace", "--locked"], TESTING),
    ];
    // In a build of the workspace, a feature that one package turns on is on for all of them, and hides that
    // another forgot to ask for it.
    for package in members {
        let name = package.name.as_str();
        steps.push(Step::cargo(format!("check {name}"), &["check", "-p", name, "--all-targets", "--locked"]));
    }
    steps.extend(members.iter().flat_map(|package| features_alone(package)));
    for name in TESTED_ALONE.iter().filter(|name| members.iter().any(|package| package.name == **name)) {
        steps.push(Step::cargo_with(format!("test {name}"), &["test", "-p", name, "--locked"], TESTING));
    }
    for manifest in OUTSIDE {
        let arguments = ["test", "--locked", "--target-dir", "target", "--manifest-path", manifest];
        steps.push(Step::cargo_with(format!("test {manifest}"), &arguments, TESTING));
    }
    steps.push(Step::cargo("model", &model::CARGO));
    steps.push(Step::cargo_with(
        "doc",
        &["doc", "--workspace", "--no-deps", "--all-features", "--locked"],
        DOCUMENTING,
    ));
    if members.iter().any(|package| package.name == "anabranch-simulate") {
        steps.push(Step::cargo("simulate", SIMULATING));
    }
    steps.extend(package(members));
    steps
}

/// The steps before a commit, for what it touches.
pub(crate) fn quick(affected: &Affected) -> Vec<Step> {
    let selection: Vec<&str> = match affected {
        Affected::Everything => vec!["--workspace"],
        Affected::Packages(names) => names.iter().flat_map(|name| ["-p", name]).collect(),
    };
    if selection.is_empty() {
        return vec![Step::tidy()];
    }
    let with = |first: &'static str, last: &[&'static str]| -> Vec<&str> {
        [first].iter().chain(&selection).chain(last).copied().collect()
    };
    vec![
        format(),
        Step::tidy(),
        Step::cargo(
            "clippy",
            &with("clippy", &["--all-targets", "--all-features", "--locked", "--", "-D", "warnings"]),
        ),
        Step::cargo_with("test", &with("test", &["--locked"]), TESTING),
    ]
}

fn format() -> Step {
    Step::cargo("fmt", &["fmt", "--all", "--check"])
}

fn features_alone(package: &Package) -> Vec<Step> {
    if package.features.is_empty() {
        return Vec::new();
    }
    let name = package.name.as_str();
    let mut steps = vec![Step::cargo(
        format!("check {name} without features"),
        &["clippy", "-p", name, "--no-default-features", "--locked", "--", "-D", "warnings"],
    )];
    for feature in package.features.keys().filter(|feature| *feature != "default") {
        steps.push(Step::cargo(
            format!("check {name} with {feature}"),
            &[
                "clippy",
                "-p",
                name,
                "--no-default-features",
                "--features",
                feature,
                "--locked",
                "--",
                "-D",
                "warnings",
            ],
        ));
    }
    steps
}

/// Packaging needs no build: what it finds is a manifest or a file that a registry's reader would miss.
fn package(members: &[&Package]) -> Option<Step> {
    if !members.iter().any(|package| package.is_publishable()) {
        return None;
    }
    let private = members.iter().filter(|package| !package.is_publishable());
    let mut arguments = vec!["package", "--workspace", "--no-verify", "--allow-dirty", "--locked"];
    arguments.extend(private.flat_map(|package| ["--exclude", package.name.as_str()]));
    Some(Step::cargo("package", &arguments))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn named(name: &str) -> Package {
        Package { name: name.to_owned(), ..Package::default() }
    }

    fn lines(steps: &[Step]) -> Vec<String> {
        steps.iter().map(Step::command_line).collect()
    }

    #[test]
    fn the_full_proof_is_this() {
        let mut adapters = named("anabranch-adapters");
        adapters.features.insert("default".to_owned(), vec!["text".to_owned()]);
        adapters.features.insert("text".to_owned(), Vec::new());
        let proto = named("anabranch-proto");
        let mut simulate = named("anabranch-simulate");
        simulate.publish = Some(Vec::new());
        let mut xtask = named("xtask");
        xtask.publish = Some(Vec::new());
        assert_eq!(
            lines(&full(&[&adapters, &proto, &simulate, &xtask])),
            [
                "cargo fmt --all --check",
                "cargo xtask tidy",
                "cargo clippy --workspace --all-targets --all-features --locked -- -D warnings",
                "CI=true INSTA_UPDATE=no cargo test --workspace --locked",
                "cargo check -p anabranch-adapters --all-targets --locked",
                "cargo check -p anabranch-proto --all-targets --locked",
                "cargo check -p anabranch-simulate --all-targets --locked",
                "cargo check -p xtask --all-targets --locked",
                "cargo clippy -p anabranch-adapters --no-default-features --locked -- -D warnings",
                "cargo clippy -p anabranch-adapters --no-default-features --features text --locked -- -D warnings",
                "CI=true INSTA_UPDATE=no cargo test -p anabranch-proto --locked",
                "CI=true INSTA_UPDATE=no cargo test -p anabranch-adapters --locked",
                "CI=true INSTA_UPDATE=no cargo test --locked --target-dir target --manifest-path \
                 examples/own-adapter/Cargo.toml",
                "cargo run --release --locked --target-dir target --manifest-path crates/pipeline/model/Cargo.toml",
                "RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --all-features --locked",
                "cargo run --profile simulate --locked -p anabranch-simulate -- --seeds 2000",
                "cargo package --workspace --no-verify --allow-dirty --locked --exclude anabranch-simulate --exclude xtask",
            ]
        );
    }

    #[test]
    fn a_quick_proof_is_of_what_is_affected() {
        let names = BTreeSet::from(["a".to_owned(), "b".to_owned()]);
        assert_eq!(
            lines(&quick(&Affected::Packages(names))),
            [
                "cargo fmt --all --check",
                "cargo xtask tidy",
                "cargo clippy -p a -p b --all-targets --all-features --locked -- -D warnings",
                "CI=true INSTA_UPDATE=no cargo test -p a -p b --locked",
            ]
        );
    }

    #[test]
    fn a_quick_proof_of_prose_is_tidy_alone() {
        assert_eq!(lines(&quick(&Affected::Packages(BTreeSet::new()))), ["cargo xtask tidy"]);
    }

    #[test]
    fn a_quick_proof_of_everything_names_the_workspace() {
        let lines = lines(&quick(&Affected::Everything));
        assert!(lines.contains(&"CI=true INSTA_UPDATE=no cargo test --workspace --locked".to_owned()));
    }

    #[test]
    fn nothing_is_packaged_where_nothing_may_be_published() {
        let mut xtask = named("xtask");
        xtask.publish = Some(Vec::new());
        assert_eq!(package(&[&xtask]), None);
    }
}
