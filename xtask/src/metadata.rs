//! What `cargo metadata` says of the workspace, as far as the commands ask.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::error::Error;
use crate::process;

/// How far to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// The workspace's own packages.
    Members,
    /// Every package that the lock file has, for every platform.
    Everything,
}

/// The workspace and its packages.
#[derive(Debug, Deserialize)]
pub(crate) struct Metadata {
    /// All packages within the asked depth.
    pub(crate) packages: Vec<Package>,
    /// The ids of the workspace's own.
    pub(crate) workspace_members: Vec<String>,
    /// The folder of the root manifest.
    pub(crate) workspace_root: PathBuf,
    /// Where cargo puts what it builds.
    #[serde(default)]
    pub(crate) target_directory: PathBuf,
}

/// One package.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub(crate) struct Package {
    /// Cargo's id, unique in the graph.
    pub(crate) id: String,
    /// The name under which it is published.
    pub(crate) name: String,
    /// Its version.
    pub(crate) version: String,
    /// Where it comes from; nothing for a path.
    pub(crate) source: Option<String>,
    /// The licence expression.
    pub(crate) license: Option<String>,
    /// What it is, in a line.
    pub(crate) description: Option<String>,
    /// The oldest compiler it supports.
    pub(crate) rust_version: Option<String>,
    /// The page that registries show, from the package's folder.
    pub(crate) readme: Option<PathBuf>,
    /// The registries it may be published to; an empty list forbids all.
    pub(crate) publish: Option<Vec<String>>,
    /// Its features and what each turns on.
    #[serde(default)]
    pub(crate) features: BTreeMap<String, Vec<String>>,
    /// What its manifest depends on, of every kind.
    #[serde(default)]
    pub(crate) dependencies: Vec<Dependency>,
    /// Its `Cargo.toml`.
    pub(crate) manifest_path: PathBuf,
}

/// One line of a dependency table, after inheritance from the workspace.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub(crate) struct Dependency {
    /// The package's name, whatever it is called here.
    pub(crate) name: String,
    /// The version asked for; `*` where only a path is given.
    pub(crate) req: String,
    /// Normal, dev or build.
    #[serde(default, deserialize_with = "null_is_normal")]
    pub(crate) kind: Kind,
    /// The name it is used by, where that differs.
    pub(crate) rename: Option<String>,
    /// Whether the package's default features are on.
    #[serde(default)]
    pub(crate) uses_default_features: bool,
    /// The features asked for.
    #[serde(default)]
    pub(crate) features: Vec<String>,
    /// The folder, for a path.
    pub(crate) path: Option<PathBuf>,
}

/// Which table a dependency stands in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    /// `[dependencies]`.
    #[default]
    Normal,
    /// `[dev-dependencies]`.
    Dev,
    /// `[build-dependencies]`.
    Build,
}

fn null_is_normal<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Kind, D::Error> {
    Option::<Kind>::deserialize(deserializer).map(Option::unwrap_or_default)
}

impl Metadata {
    /// Asks `cargo` in the current folder, which may be any folder of the workspace.
    pub(crate) fn load(depth: Depth) -> Result<Self, Error> {
        let mut command = process::cargo();
        command.args(["metadata", "--format-version", "1", "--locked"]);
        if depth == Depth::Members {
            command.arg("--no-deps");
        }
        Ok(serde_json::from_slice(&process::output(&mut command)?)?)
    }

    /// The workspace's own packages, by name.
    pub(crate) fn members(&self) -> Vec<&Package> {
        let mut members: Vec<_> =
            self.packages.iter().filter(|package| self.workspace_members.contains(&package.id)).collect();
        members.sort_by(|a, b| a.name.cmp(&b.name));
        members
    }

    /// The packages of others.
    pub(crate) fn others(&self) -> Vec<&Package> {
        self.packages.iter().filter(|package| !self.workspace_members.contains(&package.id)).collect()
    }

    /// A path from the workspace's root, with `/` on every platform.
    pub(crate) fn relative(&self, path: &Path) -> String {
        slashed(path.strip_prefix(&self.workspace_root).unwrap_or(path))
    }
}

impl Package {
    /// Whether some registry may have it.
    pub(crate) fn is_publishable(&self) -> bool {
        self.publish.as_ref().is_none_or(|registries| !registries.is_empty())
    }
}

fn slashed(path: &Path) -> String {
    let parts: Vec<_> = path.components().map(|part| part.as_os_str().to_string_lossy()).collect();
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = r#"{
        "packages": [
            {
                "id": "b", "name": "b", "version": "0.1.0", "source": null, "license": "MIT", "description": null,
                "rust_version": "1.89", "readme": "../README.md", "publish": [], "features": {"x": ["y"]},
                "manifest_path": "/w/crates/b/Cargo.toml",
                "dependencies": [
                    {"name": "a", "req": "*", "kind": null, "rename": null, "uses_default_features": true,
                     "features": [], "path": "/w/crates/a", "optional": false},
                    {"name": "c", "req": "^1", "kind": "dev", "rename": "cc", "uses_default_features": false,
                     "features": ["std"], "optional": false}
                ]
            },
            {
                "id": "a", "name": "a", "version": "0.1.0", "source": null, "publish": null,
                "manifest_path": "/w/crates/a/Cargo.toml"
            },
            {
                "id": "c", "name": "c", "version": "1.0.0", "source": "registry+somewhere", "publish": null,
                "manifest_path": "/r/c/Cargo.toml"
            }
        ],
        "workspace_members": ["b", "a"],
        "workspace_root": "/w"
    }"#;

    #[test]
    fn the_output_of_cargo_is_read() {
        let metadata: Metadata = serde_json::from_str(SAMPLE).unwrap();
        let names = |packages: Vec<&Package>| packages.iter().map(|p| p.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(metadata.members()), ["a", "b"]);
        assert_eq!(names(metadata.others()), ["c"]);
        let b = metadata.members()[1];
        assert_eq!(b.dependencies[0].kind, Kind::Normal);
        assert_eq!(b.dependencies[1].kind, Kind::Dev);
        assert_eq!(metadata.relative(&b.manifest_path), "crates/b/Cargo.toml");
    }

    #[test]
    fn an_empty_list_of_registries_forbids_publishing() {
        let metadata: Metadata = serde_json::from_str(SAMPLE).unwrap();
        let publishable: Vec<_> = metadata.members().iter().map(|p| p.is_publishable()).collect();
        assert_eq!(publishable, [true, false]);
    }
}
