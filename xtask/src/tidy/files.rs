//! The repository's text files: those that are tracked and those that would be.

use std::path::Path;
use std::process::Command;
use std::{fs, io};

use crate::error::Error;
use crate::process;

/// A text file of the repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TextFile {
    /// From the repository's root, with `/` on every platform.
    pub(super) path: String,
    /// What is in it.
    pub(super) text: String,
}

impl TextFile {
    /// The lines with their numbers, counted from 1.
    pub(super) fn numbered_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines())
    }

    /// Whether it is Rust source.
    pub(super) fn is_rust(&self) -> bool {
        self.has_extension("rs")
    }

    /// Whether it is Markdown.
    pub(super) fn is_markdown(&self) -> bool {
        self.has_extension("md")
    }

    fn has_extension(&self, extension: &str) -> bool {
        Path::new(&self.path).extension().is_some_and(|found| found == extension)
    }
}

/// Asks `git` for every file that is not ignored; what is not text is left out.
pub(super) fn tracked(root: &Path) -> Result<Vec<TextFile>, Error> {
    let mut git = Command::new("git");
    git.current_dir(root).args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"]);
    let listed = process::output(&mut git)?;
    let mut files = Vec::new();
    for path in String::from_utf8_lossy(&listed).split('\0').filter(|path| !path.is_empty()) {
        match fs::read(root.join(path)) {
            Ok(bytes) => files.extend(text(bytes).map(|text| TextFile { path: path.to_owned(), text })),
            // A file that is deleted and not yet committed so, or a symbolic link to a folder.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::IsADirectory) => {}
            Err(source) => {
                return Err(Error::Read { path: path.to_owned(), source });
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files.dedup_by(|a, b| a.path == b.path);
    Ok(files)
}

fn text(bytes: Vec<u8>) -> Option<String> {
    String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_text_is_left_out() {
        assert_eq!(text(b"fn main() {}".to_vec()).as_deref(), Some("fn main() {}"));
        assert_eq!(text(vec![0xff, 0xfe, 0x00]), None);
        assert_eq!(text(b"a\0b".to_vec()), None);
    }

    #[test]
    fn lines_count_from_one() {
        let file = TextFile { path: "a.rs".to_owned(), text: "x\ny\n".to_owned() };
        assert_eq!(file.numbered_lines().collect::<Vec<_>>(), [(1, "x"), (2, "y")]);
        assert!(file.is_rust() && !file.is_markdown());
    }
}
