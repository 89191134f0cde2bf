//! A small workspace of two layers and a package that stands nowhere.

use std::path::PathBuf;

use super::*;

const LAYERS: &[Row] = &[
    Row { package: "low", may_use: &[], never: &["futures"], only_with: CHANNELS },
    Row { package: "high", may_use: &["low"], never: &[], only_with: &[] },
];

fn on(name: &str, kind: Kind) -> Dependency {
    Dependency { name: name.to_owned(), req: "^1".to_owned(), kind, ..Dependency::default() }
}

fn by_path(name: &str) -> Dependency {
    Dependency { req: "*".to_owned(), path: Some(PathBuf::from("../somewhere")), ..on(name, Kind::Dev) }
}

fn tokio(features: &[&str]) -> Dependency {
    let features = features.iter().map(|&feature| feature.to_owned()).collect();
    Dependency { features, uses_default_features: true, ..on("tokio", Kind::Normal) }
}

fn package(name: &str, dependencies: Vec<Dependency>) -> Package {
    Package { name: name.to_owned(), dependencies, ..Package::default() }
}

/// What is found when `package` stands beside an empty `low` and `high`.
fn messages(package: &Package, tokio_default: &[&str]) -> Vec<String> {
    let low = self::package("low", Vec::new());
    let high = self::package("high", Vec::new());
    let mut tokio = self::package("tokio", Vec::new());
    let default = tokio_default.iter().map(|&feature| feature.to_owned()).collect();
    tokio.features.insert("default".to_owned(), default);
    let members: Vec<_> = [package, &low, &high].into_iter().map(member).collect();
    check(LAYERS, &members, &[&tokio]).into_iter().map(|finding| finding.message).collect()
}

fn member(package: &Package) -> Member<'_> {
    let path = format!("crates/{}/Cargo.toml", package.name);
    Member { package, manifest: TextFile { path, text: String::new() } }
}

fn assert_refused(package: &Package, tokio_default: &[&str], reason: &str) {
    let found = messages(package, tokio_default);
    assert!(found.len() == 1 && found[0].contains(reason), "{found:?}");
}

#[test]
fn what_the_table_allows_passes() {
    for package in [
        package("high", vec![on("low", Kind::Normal), on("low", Kind::Build), on("low", Kind::Dev)]),
        package("low", vec![on("serde", Kind::Normal), tokio(&["sync"])]),
        package("low", vec![by_path("high"), on("futures", Kind::Dev), on("tokio", Kind::Dev)]),
    ] {
        assert_eq!(messages(&package, &[]), [""; 0]);
    }
}

#[test]
fn an_edge_upwards_is_refused() {
    assert_refused(&package("low", vec![on("high", Kind::Normal)]), &[], "low may not be built from high");
    assert_refused(&package("low", vec![on("high", Kind::Build)]), &[], "low may not be built from high");
}

#[test]
fn a_test_may_point_up_by_path_alone() {
    assert_refused(&package("low", vec![on("high", Kind::Dev)]), &[], "by path alone");
    let versioned = Dependency { req: "^0.1.0".to_owned(), ..by_path("high") };
    assert_refused(&package("low", vec![versioned]), &[], "by path alone");
}

#[test]
fn a_package_without_a_row_is_refused() {
    assert_refused(&package("new", Vec::new()), &[], "new has no layer");
}

#[test]
fn what_a_layer_never_has_is_refused() {
    assert_refused(
        &package("low", vec![on("futures", Kind::Normal)]),
        &[],
        "may never be built from futures",
    );
}

#[test]
fn more_features_than_a_layer_may_have_are_refused() {
    assert_refused(&package("low", vec![tokio(&["sync", "rt"])]), &[], "drop the feature `rt`");
    assert_refused(&package("low", vec![tokio(&["sync"])]), &["rt"], "turn its default features off");
    let mut by_feature = package("low", Vec::new());
    by_feature.features.insert("fast".to_owned(), vec!["tokio?/rt".to_owned(), "tokio/sync".to_owned()]);
    assert_refused(&by_feature, &[], "drop `tokio?/rt`");
}

#[test]
fn a_crate_from_above_is_used_in_tests_alone() {
    let low = package("low", vec![by_path("high")]);
    let file = |path: &str, text: &str| TextFile { path: path.to_owned(), text: text.to_owned() };
    let files = [
        file("crates/low/src/lib.rs", "//! high::Thing is above.\nuse high::Thing;\n"),
        file("crates/low/tests/a.rs", "use high::Thing;\n"),
        file("crates/lower/src/lib.rs", "use high::Thing;\n"),
    ];
    let found = check_upward_uses(LAYERS, &member(&low), &files);
    let places: Vec<_> = found.iter().map(|finding| (finding.path.as_str(), finding.line)).collect();
    assert_eq!(places, [("crates/low/src/lib.rs", 2)]);
}

#[test]
fn the_table_has_no_circle() {
    // Each row may use only rows that stand before it.
    for (index, row) in TABLE.iter().enumerate() {
        for used in row.may_use {
            assert!(TABLE[..index].iter().any(|lower| lower.package == *used), "{} uses {used}", row.package);
        }
    }
}
