//! What a run of the demo is to do.

use std::{
    collections::BTreeSet,
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anabranch_runtime::{Permissions, Runner};

use crate::{
    result_files,
    shown::one_line,
    tools::Selection,
    workspace::{Source, Workspace},
};

/// A node of the demo's graph: `n1` and `n2` each analyse a file, then `n3` compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, clap::ValueEnum)]
#[expect(clippy::exhaustive_enums, reason = "the demo's graph has these nodes")]
pub enum Node {
    /// Analyses the first file.
    N1,
    /// Analyses the second file.
    N2,
    /// Compares the two, and joins the parts of one that fanned out.
    N3,
}

impl Node {
    /// The nodes that analyse a file.
    pub const ANALYSES: [Self; 2] = [Self::N1, Self::N2];

    /// The node's id, which is its events' `node_id`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::N1 => "n1",
            Self::N2 => "n2",
            Self::N3 => "n3",
        }
    }

    pub(crate) fn from_id(id: &str) -> Option<Self> {
        [Self::N1, Self::N2, Self::N3].into_iter().find(|node| node.as_str() == id)
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a run of the demo is to do. By default it compares the two files that it carries.
///
/// ```no_run
/// # async fn run() -> Result<(), anabranch_demo::StartError> {
/// use anabranch_demo::{Node, Plan};
/// use futures::StreamExt as _;
///
/// let mut run = Plan::new().fail(Node::N1).start().await?;
/// while let Some(read) = run.reply.next().await {
///     println!("{read:?}");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Plan {
    inputs: Option<[PathBuf; 2]>,
    out: Option<PathBuf>,
    fail: BTreeSet<Node>,
    fan: BTreeSet<Node>,
    is_nested: bool,
    asks: BTreeSet<String>,
    pace: Pace,
    elsewhere: Option<Elsewhere>,
}

/// Where the nodes of the graph run that do not run with the master.
#[derive(Clone)]
struct Elsewhere(Arc<dyn Runner>);

impl fmt::Debug for Elsewhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Elsewhere").finish_non_exhaustive()
    }
}

/// How long scripted models seem to think. Nothing by default, so that runs are fast and all alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pace {
    /// Before each answer.
    pub answer: Duration,
    /// Before each word.
    pub word: Duration,
}

impl Pace {
    /// Pauses before each answer and before each word.
    #[must_use]
    pub fn new(answer: Duration, word: Duration) -> Self {
        Self { answer, word }
    }

    /// Slow enough to watch, over in about two seconds.
    #[must_use]
    pub fn watchable() -> Self {
        Self { answer: Duration::from_millis(90), word: Duration::from_millis(4) }
    }
}

impl Plan {
    /// The plan of a run without options.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Compares these two CSV files, each with a header and numeric columns.
    #[must_use]
    pub fn inputs(mut self, inputs: [PathBuf; 2]) -> Self {
        self.inputs = Some(inputs);
        self
    }

    /// Writes the results into this folder; by default into a temporary one.
    #[must_use]
    pub fn out(mut self, folder: PathBuf) -> Self {
        self.out = Some(folder);
        self
    }

    /// Makes a node's first tool fail.
    #[must_use]
    pub fn fail(mut self, node: Node) -> Self {
        self.fail.insert(node);
        self
    }

    /// Gives a node that analyses a file two sub-agents, one for the odd rows and one for the even.
    #[must_use]
    pub fn fan(mut self, node: Node) -> Self {
        self.fan.insert(node);
        self
    }

    /// Lets `n1` spawn a sub-agent of its own.
    #[must_use]
    pub fn nested(mut self) -> Self {
        self.is_nested = true;
        self
    }

    /// Asks a person before this tool runs, whichever agent calls it; the run waits for the answer.
    #[must_use]
    pub fn ask(mut self, tool: impl Into<String>) -> Self {
        self.asks.insert(tool.into());
        self
    }

    /// How long scripted models seem to think.
    #[must_use]
    pub fn pace(mut self, pace: Pace) -> Self {
        self.pace = pace;
        self
    }

    /// Has the nodes run elsewhere, by whoever has [their agents](Self::node).
    #[must_use]
    pub fn elsewhere(mut self, runner: Arc<dyn Runner>) -> Self {
        self.elsewhere = Some(Elsewhere(runner));
        self
    }

    pub(crate) fn runner(&self) -> Option<Arc<dyn Runner>> {
        self.elsewhere.as_ref().map(|elsewhere| Arc::clone(&elsewhere.0))
    }

    /// The folder for results, where one was chosen.
    pub(crate) fn folder(&self) -> Option<&Path> {
        self.out.as_deref()
    }

    /// What agents may do without asking.
    pub(crate) fn permissions(&self) -> Permissions {
        self.asks.iter().fold(Permissions::new(), Permissions::ask)
    }

    pub(crate) fn thinks(&self) -> Pace {
        self.pace
    }

    pub(crate) fn fails(&self, node: Node) -> bool {
        self.fail.contains(&node)
    }

    pub(crate) fn fans(&self, node: Node) -> bool {
        self.fan.contains(&node)
    }

    pub(crate) fn nests(&self, node: Node) -> bool {
        self.is_nested && node == Node::N1
    }

    /// Which rows each of a node's sub-agents takes.
    pub(crate) fn parts(&self, node: Node) -> &'static [Selection] {
        if self.fans(node) { &[Selection::Odd, Selection::Even] } else { &[Selection::All] }
    }

    /// The name of the file that a node analyses: as the user gave it, so that one name is one file.
    pub(crate) fn file(&self, node: Node) -> String {
        let [first, second] = self.files().map(|(name, _)| name);
        match node {
            Node::N1 => first,
            Node::N2 | Node::N3 => second,
        }
    }

    /// A result that would be written over an input, and that input.
    pub(crate) fn overwritten(&self, folder: &Path) -> Option<(PathBuf, PathBuf)> {
        let names = Node::ANALYSES.into_iter().flat_map(|node| {
            let file = self.file(node);
            self.parts(node).iter().map(move |rows| result_files::name(node, &file, *rows))
        });
        names.map(|name| folder.join(name)).find_map(|result| {
            let mut inputs = self.inputs.iter().flatten();
            let input = inputs.find(|input| result_files::is_same(&result, input))?;
            Some((result, input.clone()))
        })
    }

    /// The files by their names, and no folder for results yet.
    pub(crate) fn workspace(&self) -> Workspace {
        Workspace::new(self.files())
    }

    fn files(&self) -> [(String, Source); 2] {
        let Some([first, second]) = &self.inputs else {
            return EMBEDDED.map(|(name, text)| (name.to_owned(), Source::embedded(text.as_bytes())));
        };
        let (name_of_first, mut name_of_second) = (name(first), name(second));
        // What is shown of two paths may be the same.
        if first != second && name_of_first == name_of_second {
            name_of_second.push_str(" (2)");
        }
        [(name_of_first, Source::path(first)), (name_of_second, Source::path(second))]
    }
}

/// What agents call a file: its path as the user gave it, on one line.
fn name(path: &Path) -> String {
    let name = one_line(&path.to_string_lossy());
    if name.is_empty() { "?".to_owned() } else { name }
}

/// The files that the demo carries; `data/README.md` says where they come from.
const EMBEDDED: [(&str, &str); 2] = [
    ("seattle.csv", include_str!("../data/seattle.csv")),
    ("new_york.csv", include_str!("../data/new_york.csv")),
];
