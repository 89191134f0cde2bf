//! Which crate may know which: the layers, as a table.

use crate::metadata::{Dependency, Kind, Package};
use crate::tidy::files::TextFile;
use crate::tidy::{Finding, Member};

/// What one of our packages may depend on.
#[derive(Debug)]
pub(super) struct Row {
    package: &'static str,
    /// Those of ours that it may be built from.
    may_use: &'static [&'static str],
    /// Those of others that it may never be built from.
    never: &'static [&'static str],
    /// Those of others that it may be built from with these features alone.
    only_with: &'static [(&'static str, &'static [&'static str])],
}

/// `tokio` and what brings it along. Below the runtime nothing spawns, sleeps or does I/O.
const TOKIO: &[&str] = &["tokio", "tokio-stream", "tokio-util"];

/// `proto` is plain data: it has no streams either.
const STREAMS: &[&str] = &["tokio", "tokio-stream", "tokio-util", "futures", "futures-util"];

/// Channels between the layers need `tokio`'s `sync`, which needs no runtime to run on.
const CHANNELS: &[(&str, &[&str])] = &[("tokio", &["sync"])];

/// The layers, from the lowest up. What the table does not allow is refused.
pub(super) const TABLE: &[Row] = &[
    Row { package: "anabranch-proto", may_use: &[], never: STREAMS, only_with: &[] },
    Row { package: "anabranch-pipeline", may_use: &["anabranch-proto"], never: &[], only_with: CHANNELS },
    Row { package: "anabranch-session", may_use: &["anabranch-proto"], never: &[], only_with: CHANNELS },
    Row { package: "anabranch-adapters", may_use: &["anabranch-proto"], never: TOKIO, only_with: &[] },
    // It has threads of its own for the disk, and runs under any async runtime or none.
    Row {
        package: "anabranch-store",
        may_use: &["anabranch-proto", "anabranch-session"],
        never: &[],
        only_with: CHANNELS,
    },
    Row {
        package: "anabranch-testkit",
        may_use: &["anabranch-proto", "anabranch-adapters"],
        never: &[],
        only_with: &[],
    },
    Row {
        package: "anabranch-runtime",
        may_use: &["anabranch-proto", "anabranch-pipeline", "anabranch-session", "anabranch-adapters"],
        never: &[],
        only_with: &[],
    },
    // It has threads of its own for the disk, and runs under any runtime or none.
    Row {
        package: "anabranch-remote",
        may_use: &["anabranch-proto", "anabranch-runtime"],
        never: &[],
        only_with: &[],
    },
    Row {
        package: "anabranch-demo",
        may_use: &[
            "anabranch-proto",
            "anabranch-pipeline",
            "anabranch-session",
            "anabranch-adapters",
            "anabranch-runtime",
        ],
        never: &[],
        only_with: &[],
    },
    Row {
        package: "anabranch-server",
        may_use: &[
            "anabranch-proto",
            "anabranch-pipeline",
            "anabranch-session",
            "anabranch-adapters",
            "anabranch-runtime",
            "anabranch-remote",
            "anabranch-store",
            "anabranch-demo",
        ],
        never: &[],
        only_with: &[],
    },
    Row {
        package: "anabranch-simulate",
        may_use: &["anabranch-proto", "anabranch-pipeline", "anabranch-session", "anabranch-runtime"],
        never: &[],
        only_with: &[],
    },
    Row {
        package: "anabranch-crash",
        may_use: &[
            "anabranch-proto",
            "anabranch-pipeline",
            "anabranch-session",
            "anabranch-runtime",
            "anabranch-store",
            "anabranch-server",
        ],
        never: &[],
        only_with: &[],
    },
    // It has to work when the others do not compile.
    Row { package: "xtask", may_use: &[], never: &[], only_with: &[] },
];

/// Finds dependencies that the table does not allow.
pub(super) fn check(table: &[Row], members: &[Member<'_>], others: &[&Package]) -> Vec<Finding> {
    let mut found = Vec::new();
    for member in members {
        let Some(row) = row_of(table, member) else {
            found.push(Finding::new(
                &member.manifest.path,
                1,
                format!(
                    "{} has no layer; give it a row in xtask/src/tidy/layers.rs and say why in the commit",
                    member.package.name
                ),
            ));
            continue;
        };
        for dependency in &member.package.dependencies {
            let is_ours = members.iter().any(|other| other.package.name == dependency.name);
            let objection = if is_ours {
                objection_to_ours(row, dependency)
            } else if dependency.kind == Kind::Normal {
                objection_to_others(row, dependency, others)
            } else {
                None
            };
            found.extend(objection.map(|message| member.finding_at(&dependency.name, message)));
        }
        found.extend(features_turned_on(row, member));
    }
    found
}

fn row_of<'a>(table: &'a [Row], member: &Member<'_>) -> Option<&'a Row> {
    table.iter().find(|row| row.package == member.package.name)
}

fn objection_to_ours(row: &Row, dependency: &Dependency) -> Option<String> {
    let Dependency { name, req, .. } = dependency;
    let Row { package, .. } = row;
    if row.may_use.contains(&name.as_str()) {
        None
    } else if dependency.kind != Kind::Dev {
        Some(format!("{package} may not be built from {name}, which is not below it; see ARCHITECTURE.md"))
    } else if req != "*" || dependency.path.is_none() {
        Some(format!(
            "{package} may use {name} in its tests by path alone, because packaging looks for a version: \
             write `{name} = {{ path = \"…\" }}`"
        ))
    } else {
        None
    }
}

fn objection_to_others(row: &Row, dependency: &Dependency, others: &[&Package]) -> Option<String> {
    let Dependency { name, features, .. } = dependency;
    let Row { package, .. } = row;
    if row.never.contains(&name.as_str()) {
        return Some(format!("{package} may never be built from {name}; see ARCHITECTURE.md"));
    }
    let (_, allowed) = row.only_with.iter().find(|(limited, _)| limited == name)?;
    let too_many = features.iter().find(|feature| !allowed.contains(&feature.as_str()));
    if let Some(feature) = too_many {
        return Some(format!(
            "{package} may use {name} with {allowed:?} alone; drop the feature `{feature}`"
        ));
    }
    let turns_on_more = |other: &&Package| {
        other.name == *name && other.features.get("default").is_some_and(|default| !default.is_empty())
    };
    (dependency.uses_default_features && others.iter().any(turns_on_more))
        .then(|| format!("{package} may use {name} with {allowed:?} alone; turn its default features off"))
}

/// Features of the member itself that turn on more of a limited package.
fn features_turned_on<'a>(row: &'a Row, member: &'a Member<'_>) -> impl Iterator<Item = Finding> + 'a {
    let turned_on = member.package.features.values().flatten();
    turned_on.filter_map(|turned_on| {
        let (name, feature) = turned_on.split_once('/')?;
        let name = name.trim_end_matches('?');
        let (_, allowed) = row.only_with.iter().find(|(limited, _)| *limited == name)?;
        (!allowed.contains(&feature)).then(|| {
            let message =
                format!("{} may use {name} with {allowed:?} alone; drop `{turned_on}`", row.package);
            member.finding_at("[features]", message)
        })
    })
}

/// Finds tests inside `src/` that use a crate from above: there they would meet a second copy of their own types.
pub(super) fn check_upward_uses(table: &[Row], member: &Member<'_>, files: &[TextFile]) -> Vec<Finding> {
    let may_use = row_of(table, member).map_or(&[][..], |row| row.may_use);
    let upward: Vec<String> = member
        .package
        .dependencies
        .iter()
        .filter(|dependency| dependency.kind == Kind::Dev && dependency.path.is_some())
        .filter(|dependency| !may_use.contains(&dependency.name.as_str()))
        .map(|dependency| dependency.rename.as_ref().unwrap_or(&dependency.name).replace('-', "_"))
        .collect();
    let source = format!("{}/src/", member.folder());
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.is_rust() && file.path.starts_with(&source)) {
        let code = file.numbered_lines().filter(|(_, line)| !line.trim_start().starts_with("//"));
        for (number, line) in code {
            for name in upward.iter().filter(|name| line.contains(&format!("{name}::"))) {
                let message =
                    format!("{name} stands above this crate; move the test that uses it to `tests/`");
                found.push(Finding::new(&file.path, number, message));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests;
