//! The files that results are written to.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    path::Path,
};

use crate::{plan::Node, shown::LONGEST, tools::Selection};

/// The columns of a result, which are its first line: by them an earlier result is known.
pub(crate) const COLUMNS: [&str; 6] = ["column", "count", "sum", "mean", "min", "max"];

/// The name of the file that a result is written to: the node's id, the input's name, and which rows.
pub(crate) fn name(node: Node, file: &str, rows: Selection) -> String {
    let name = file.rsplit(['/', '\\']).next().unwrap_or(file);
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    let plain = |c: char| if c.is_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '_' };
    // File systems take some 255 bytes.
    let stem: String = stem.chars().take(LONGEST).map(plain).collect();
    match rows {
        Selection::All => format!("{node}-{stem}.csv"),
        Selection::Odd | Selection::Even => format!("{node}-{stem}-{}.csv", rows.as_str()),
    }
}

/// Whether two paths lead to the same file, by links too. What does not exist is no file.
pub(crate) fn is_same(one: &Path, other: &Path) -> bool {
    #[cfg(unix)]
    let identity = |path: &Path| {
        use std::os::unix::fs::MetadataExt as _;
        fs::metadata(path).map(|metadata| (metadata.dev(), metadata.ino()))
    };
    #[cfg(not(unix))]
    let identity = |path: &Path| fs::canonicalize(path);
    matches!((identity(one), identity(other)), (Ok(one), Ok(other)) if one == other)
}

/// Refuses where a file stands in a result's place that is no earlier result.
pub(crate) fn refuse_to_replace(path: &Path) -> io::Result<()> {
    let refuse = |reason: &str| {
        let reason = format!("{reason}; move it away or choose another folder with --out");
        Err(io::Error::new(io::ErrorKind::AlreadyExists, reason))
    };
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
        Ok(metadata) if !metadata.is_file() => return refuse("what is there is no regular file"),
        Ok(_) => {}
    }
    let first = COLUMNS.join(",") + "\n";
    let mut begin = Vec::new();
    File::open(path)?.take(first.len() as u64).read_to_end(&mut begin)?;
    // A result that was cut off while it was written is one too.
    if first.as_bytes().starts_with(&begin) {
        Ok(())
    } else {
        refuse("what is there is no result of the demo's")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_named_by_its_node_its_file_and_its_rows() {
        for (file, rows, expected) in [
            ("seattle.csv", Selection::All, "n1-seattle.csv"),
            ("a/b c\\d e.tar.csv", Selection::Odd, "n1-d_e.tar-odd.csv"),
            ("../..", Selection::Even, "n1-.-even.csv"),
        ] {
            assert_eq!(name(Node::N1, file, rows), expected);
        }
        assert!(name(Node::N1, &"é".repeat(255), Selection::Even).len() < 255);
    }
}
