//! What the tests of the demo share.

use std::{
    collections::{BTreeSet, HashMap},
    fmt::Write as _,
    fs,
    path::PathBuf,
    sync::Arc,
};

use anabranch_demo::Plan;
use anabranch_proto::{
    Event, EventKind, Outcome, Scope, SessionId,
    event::{SpawnSessionStart, StreamComplete},
};
use anabranch_runtime::Read;
use futures::StreamExt as _;

/// A folder of a test's own, empty.
pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::remove_dir_all(&folder).ok();
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// All events of a run, in order.
pub(crate) async fn events(plan: Plan) -> Events {
    let mut run = plan.start().await.unwrap();
    let mut events = Vec::new();
    while let Some(read) = run.reply.next().await {
        let Read::Event(admitted) = read else { panic!("events were lost: {read:?}") };
        assert_eq!(admitted.seq, events.len() as u64 + 1);
        events.push(admitted.event);
    }
    run.session.close().await;
    Events(events)
}

/// The same, on a runtime of its own.
pub(crate) fn events_of(plan: Plan) -> Events {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(events(plan))
}

/// The events of one run.
pub(crate) struct Events(pub(crate) Vec<Arc<Event>>);

/// One spawned child: where its spawn is, and whose events are its own.
pub(crate) struct Child<'a> {
    pub(crate) at: usize,
    pub(crate) spawn: &'a SpawnSessionStart,
    pub(crate) event: &'a Event,
}

impl Events {
    /// The children, in the order of their spawns.
    pub(crate) fn children<'a>(&'a self) -> Vec<Child<'a>> {
        let child = |(at, event): (usize, &'a Arc<Event>)| {
            if let EventKind::SpawnSessionStart(spawn) = &event.kind {
                Some(Child { at, spawn, event })
            } else {
                None
            }
        };
        self.0.iter().enumerate().filter_map(child).collect()
    }

    /// The first child of a node.
    pub(crate) fn child(&self, node: &str) -> Child<'_> {
        let mut children = self.children().into_iter();
        children.find(|child| child.event.metadata.get_str("node_id").as_deref() == Some(node)).unwrap()
    }

    /// The places of a session's own events.
    pub(crate) fn of(&self, session: &SessionId) -> Vec<usize> {
        let is_own =
            |event: &Event| matches!(&event.scope, Scope::Child(child) if child.child_session_id == *session);
        (0..self.0.len()).filter(|at| is_own(&self.0[*at])).collect()
    }

    /// How a child ended, and where.
    pub(crate) fn end(&self, session: &SessionId) -> (usize, &StreamComplete) {
        let ends: Vec<_> = self
            .of(session)
            .into_iter()
            .filter_map(|at| {
                if let EventKind::StreamComplete(complete) = &self.0[at].kind {
                    Some((at, &**complete))
                } else {
                    None
                }
            })
            .collect();
        assert_eq!(ends.len(), 1, "a child ends once");
        ends[0]
    }

    /// How the run ended.
    pub(crate) fn outcome(&self) -> Outcome {
        self.terminal().outcome
    }

    /// The report: the last text of the master.
    pub(crate) fn report(&self) -> Report {
        Report::read(&self.terminal().message.as_ref().unwrap().text())
    }

    fn terminal(&self) -> &StreamComplete {
        let last = &self.0.last().unwrap().kind;
        let EventKind::StreamComplete(complete) = last else { panic!("the last event is {}", last.tag()) };
        complete
    }

    /// All numbers in the tool results of a node's sub-agents.
    pub(crate) fn numbers_given(&self, node: &str) -> BTreeSet<String> {
        let mut texts: HashMap<(SessionId, String), String> = HashMap::new();
        for event in &self.0 {
            if let (Scope::Child(child), EventKind::ToolResultTextDelta(delta)) = (&event.scope, &event.kind)
                && event.metadata.get_str("node_id").as_deref() == Some(node)
            {
                let key = (child.child_session_id.clone(), delta.tool_call_id.to_string());
                *texts.entry(key).or_default() += &delta.delta;
            }
        }
        texts.values().flat_map(|text| numbers(text)).collect()
    }
}

fn numbers(text: &str) -> Vec<String> {
    let pieces = text.split(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+' | 'e')));
    pieces.filter(|piece| piece.parse::<f64>().is_ok()).map(str::to_owned).collect()
}

/// A report as it was read.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) text: String,
    pub(crate) sections: Vec<Section>,
}

/// What a report says of a node: lines of cells.
#[derive(Debug)]
pub(crate) struct Section {
    pub(crate) node: String,
    pub(crate) lines: Vec<Vec<String>>,
}

impl Report {
    fn read(text: &str) -> Self {
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("Report"));
        let mut sections: Vec<Section> = Vec::new();
        for line in lines.filter(|line| !line.starts_with("files: ")) {
            let (node, rest) = line.split_at(4);
            if !node.trim().is_empty() {
                sections.push(Section { node: node.trim().to_owned(), lines: Vec::new() });
            }
            let cells = rest.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned);
            sections.last_mut().unwrap().lines.push(cells.collect());
        }
        Self { text: text.to_owned(), sections }
    }

    pub(crate) fn section(&self, node: &str) -> &Section {
        self.sections.iter().find(|section| section.node == node).unwrap()
    }
}

impl Section {
    /// The figures in the first line that begins with a name.
    pub(crate) fn figures(&self, name: &str) -> Vec<&str> {
        let line = self.lines.iter().find(|line| line[0] == name).unwrap_or_else(|| panic!("no line {name}"));
        line[1..].iter().map(String::as_str).collect()
    }
}

/// Every figure of the report was given by a tool of its node.
pub(crate) fn assert_figures_were_given(events: &Events) {
    for section in &events.report().sections {
        let given = events.numbers_given(&section.node);
        for figure in section.lines.iter().skip(1).flat_map(|line| &line[1..]) {
            let is_known = figure.parse::<f64>().is_err() || given.contains(figure);
            assert!(is_known, "{figure} in {} was given by no tool of it", section.node);
        }
    }
}

/// The text with ids renamed by the order in which they appear, and without times.
pub(crate) fn normalized(text: &str) -> String {
    const ULID: usize = 26;
    const TIME: usize = "2026-11-30T10:00:00.000001Z".len();
    let mut ids: HashMap<&str, usize> = HashMap::new();
    let mut out = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let letters = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let time = rest.get(..TIME).is_some_and(|time| {
            time.bytes().enumerate().all(|(at, byte)| match at {
                4 | 7 => byte == b'-',
                10 => byte == b'T',
                13 | 16 => byte == b':',
                19 => byte == b'.',
                26 => byte == b'Z',
                _ => byte.is_ascii_digit(),
            })
        });
        let taken = if time {
            out.push_str("<time>");
            TIME
        } else if letters == ULID {
            let count = ids.len();
            write!(out, "<{}>", ids.entry(&rest[..ULID]).or_insert(count)).unwrap();
            ULID
        } else {
            let taken = letters.max(c.len_utf8());
            out.push_str(&rest[..taken]);
            taken
        };
        rest = &rest[taken..];
    }
    out
}
