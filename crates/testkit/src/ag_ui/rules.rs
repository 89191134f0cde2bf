//! What holds between frames.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::{Map, Value};

use super::{Dialect, shape::text};

/// A stream so far.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    dialect: Dialect,
    pub(super) reopening: bool,
    run: Run,
    is_begun: bool,
    /// Each id that was opened, with its owner, in this run and before it.
    owners: HashMap<(Kind, String), String>,
    /// Calls whose arguments have been closed; calls with a result.
    complete: HashSet<String>,
    answered: HashSet<String>,
    /// Sub-agents that have ended for good.
    ended: HashSet<String>,
    pub(super) texts: BTreeMap<(String, String), String>,
    pub(super) ends: BTreeMap<String, String>,
}

/// The run that is under way, or the one that was.
#[derive(Clone, Debug, Default)]
struct Run {
    /// The thread and the run, while it is under way.
    ids: Option<(String, String)>,
    failed: bool,
    /// What is open, with its owner.
    open: HashMap<(Kind, String), String>,
    /// What has been open.
    closed: HashSet<(Kind, String)>,
    active: HashSet<String>,
    started: HashSet<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Message,
    Reasoning,
    Span,
    Call,
    Step,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Reasoning => "reasoning message",
            Self::Span => "reasoning span",
            Self::Call => "call",
            Self::Step => "step",
        }
    }
}

/// The root's own.
const ROOT: &str = "";

type Checked = Result<(), String>;

fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(otherwise()) }
}

impl Rules {
    pub(super) fn new(dialect: Dialect) -> Self {
        Self {
            dialect,
            reopening: false,
            run: Run::default(),
            is_begun: false,
            owners: HashMap::new(),
            complete: HashSet::new(),
            answered: HashSet::new(),
            ended: HashSet::new(),
            texts: BTreeMap::new(),
            ends: BTreeMap::new(),
        }
    }

    /// Takes a frame whose shape is right.
    pub(super) fn frame(&mut self, frame: &Value) -> Checked {
        let Some(frame) = frame.as_object() else { return Ok(()) };
        let name = text(frame, "type").unwrap_or_default();
        let field = |key: &str| text(frame, key).unwrap_or_default();
        let owner = text(frame, "subagentRunId").unwrap_or(ROOT);
        self.within_run(name)?;
        self.attributed(name, owner)?;
        match name {
            "RUN_STARTED" => {
                self.is_begun = true;
                let ids = Some((field("threadId").to_owned(), field("runId").to_owned()));
                self.run = Run { ids, ..Run::default() };
            }
            "RUN_FINISHED" | "RUN_ERROR" => self.end_run(name, frame)?,
            "TEXT_MESSAGE_START" => self.open(Kind::Message, field("messageId"), owner)?,
            "TEXT_MESSAGE_CONTENT" => {
                let id = field("messageId");
                self.opened(Kind::Message, id, owner)?;
                let text = self.texts.entry((owner.to_owned(), id.to_owned())).or_default();
                text.push_str(field("delta"));
            }
            "TEXT_MESSAGE_END" => self.close(Kind::Message, field("messageId"), owner)?,
            "REASONING_START" => self.open(Kind::Span, field("messageId"), owner)?,
            "REASONING_MESSAGE_START" => self.open(Kind::Reasoning, field("messageId"), owner)?,
            "REASONING_MESSAGE_CONTENT" => self.opened(Kind::Reasoning, field("messageId"), owner)?,
            "REASONING_MESSAGE_END" => self.close(Kind::Reasoning, field("messageId"), owner)?,
            "REASONING_END" => self.close(Kind::Span, field("messageId"), owner)?,
            "TOOL_CALL_START" => {
                if let Some(parent) = text(frame, "parentMessageId") {
                    let whose = self.owners.get(&(Kind::Message, parent.to_owned()));
                    ensure(whose.is_none_or(|whose| whose == owner), || {
                        format!("a call of `{owner}` belongs to another's message `{parent}`")
                    })?;
                }
                self.open(Kind::Call, field("toolCallId"), owner)?;
            }
            "TOOL_CALL_ARGS" => self.opened(Kind::Call, field("toolCallId"), owner)?,
            "TOOL_CALL_END" => {
                self.close(Kind::Call, field("toolCallId"), owner)?;
                self.complete.insert(field("toolCallId").to_owned());
            }
            "TOOL_CALL_RESULT" => self.result(field("toolCallId"), field("messageId"), owner)?,
            "STEP_STARTED" => {
                let key = self.step(field("stepName"), owner);
                ensure(self.run.open.insert(key, owner.to_owned()).is_none(), || {
                    format!("the step `{}` is open already", field("stepName"))
                })?;
            }
            "STEP_FINISHED" => {
                let key = self.step(field("stepName"), owner);
                ensure(self.run.open.remove(&key).is_some_and(|whose| whose == owner), || {
                    format!("the step `{}` is not open", field("stepName"))
                })?;
            }
            "SUBAGENT_STARTED" => self.start_subagent(owner, text(frame, "parentSubagentRunId"))?,
            "SUBAGENT_FINISHED" => {
                let end = frame.get("outcome").and_then(|outcome| outcome["type"].as_str());
                self.end_subagent(owner, end.unwrap_or("success"))?;
            }
            "SUBAGENT_ERROR" => self.end_subagent(owner, field("code"))?,
            _ => {}
        }
        Ok(())
    }

    pub(super) fn finish(&self) -> Checked {
        ensure(self.is_begun, || "the stream is empty".to_owned())?;
        ensure(self.run.ids.is_none(), || "the stream ends within a run".to_owned())
    }

    fn within_run(&self, name: &str) -> Checked {
        let is_running = self.run.ids.is_some();
        match name {
            "RUN_STARTED" => ensure(!is_running, || "a run begins within a run".to_owned()),
            "RUN_ERROR" if !is_running => {
                ensure(!self.run.failed, || "a run that has failed fails again".to_owned())
            }
            name => ensure(is_running, || format!("{name} comes outside a run")),
        }
    }

    fn attributed(&self, name: &str, owner: &str) -> Checked {
        let is_announcement = name.starts_with("SUBAGENT_");
        match self.dialect {
            Dialect::Attributed if is_announcement => {
                ensure(owner != ROOT, || format!("{name} lacks `subagentRunId`"))
            }
            Dialect::Attributed => ensure(owner == ROOT || self.run.active.contains(owner), || {
                format!("{name} is of `{owner}`, which is not at work")
            }),
            Dialect::AttributionOnly | Dialect::Inline if is_announcement => {
                Err(format!("a client that speaks this does not know {name}"))
            }
            Dialect::AttributionOnly => Ok(()),
            Dialect::Inline => ensure(owner == ROOT, || format!("{name} bears the name of `{owner}`")),
        }
    }

    fn open(&mut self, kind: Kind, id: &str, owner: &str) -> Checked {
        let key = (kind, id.to_owned());
        let name = kind.name();
        self.only_one(kind, id)?;
        let whose = self.owners.entry(key.clone()).or_insert_with(|| owner.to_owned());
        ensure(whose == owner, || format!("the {name} `{id}` is another's"))?;
        ensure(self.reopening || !self.run.closed.contains(&key), || {
            format!("the {name} `{id}` has ended in this run")
        })?;
        ensure(self.run.open.insert(key, owner.to_owned()).is_none(), || {
            format!("the {name} `{id}` is open already")
        })
    }

    /// A client looks for an id among all messages, where thoughts are too, and calls that belong to none.
    fn only_one(&self, kind: Kind, id: &str) -> Checked {
        for other in [Kind::Message, Kind::Reasoning, Kind::Call] {
            // A span has the id of the thought that is in it.
            let is_it = other == kind || (kind, other) == (Kind::Span, Kind::Reasoning);
            ensure(is_it || !self.owners.contains_key(&(other, id.to_owned())), || {
                format!("the {} `{id}` has the id of a {}", kind.name(), other.name())
            })?;
        }
        Ok(())
    }

    fn opened(&self, kind: Kind, id: &str, owner: &str) -> Checked {
        let whose = self.run.open.get(&(kind, id.to_owned()));
        let whose = whose.ok_or_else(|| format!("the {} `{id}` is not open", kind.name()))?;
        ensure(whose == owner, || format!("the {} `{id}` is another's", kind.name()))
    }

    fn close(&mut self, kind: Kind, id: &str, owner: &str) -> Checked {
        self.opened(kind, id, owner)?;
        let key = (kind, id.to_owned());
        self.run.open.remove(&key);
        self.run.closed.insert(key);
        Ok(())
    }

    fn result(&mut self, call: &str, message: &str, owner: &str) -> Checked {
        let key = (Kind::Call, call.to_owned());
        let whose = self.owners.get(&key).ok_or_else(|| format!("the call `{call}` has not begun"))?;
        ensure(whose == owner, || format!("the call `{call}` is another's"))?;
        let is_complete = self.complete.contains(call) && !self.run.open.contains_key(&key);
        ensure(is_complete, || format!("the call `{call}` has a result and its arguments are open"))?;
        ensure(self.answered.insert(call.to_owned()), || format!("the call `{call}` has two results"))?;
        self.only_one(Kind::Message, message)?;
        let message = (Kind::Message, message.to_owned());
        ensure(self.owners.insert(message, owner.to_owned()).is_none(), || {
            format!("the result of `{call}` has the id of another message")
        })
    }

    /// A step's place: clients that know no owners know steps by their names alone.
    fn step(&self, name: &str, owner: &str) -> (Kind, String) {
        match self.dialect {
            Dialect::Attributed => (Kind::Step, format!("{owner}\0{name}")),
            Dialect::AttributionOnly | Dialect::Inline => (Kind::Step, name.to_owned()),
        }
    }

    fn start_subagent(&mut self, id: &str, parent: Option<&str>) -> Checked {
        ensure(!self.ended.contains(id), || format!("`{id}` has ended and begins again"))?;
        ensure(self.run.started.insert(id.to_owned()), || format!("`{id}` begins twice in a run"))?;
        if let Some(parent) = parent {
            ensure(parent != id && self.run.started.contains(parent), || {
                format!("the parent `{parent}` has not begun in this run")
            })?;
        }
        self.run.active.insert(id.to_owned());
        Ok(())
    }

    fn end_subagent(&mut self, id: &str, end: &str) -> Checked {
        ensure(self.run.active.remove(id), || format!("`{id}` ends and is not at work"))?;
        let left = self.run.open.iter().find(|(_, owner)| *owner == id);
        ensure(left.is_none(), || format!("`{id}` ends and has {left:?} open"))?;
        if end != "suspended" {
            self.ended.insert(id.to_owned());
        }
        self.ends.insert(id.to_owned(), end.to_owned());
        Ok(())
    }

    fn end_run(&mut self, name: &str, frame: &Map<String, Value>) -> Checked {
        if name == "RUN_FINISHED" {
            let ids = ["threadId", "runId"].map(|key| text(frame, key).unwrap_or_default());
            let is_it = self.run.ids.as_ref().is_some_and(|(thread, run)| [&**thread, &**run] == ids);
            ensure(is_it, || "another run ends than the one that began".to_owned())?;
            let is_cancelled = frame.get("outcome").is_some_and(|outcome| outcome["type"] == "cancelled");
            ensure(self.dialect != Dialect::AttributionOnly || !is_cancelled, || {
                "a client that speaks this does not know cancelled runs".to_owned()
            })?;
        }
        // The protocol lets a run fail with things open; what closes them all the same is read by more clients.
        ensure(self.run.open.is_empty(), || format!("the run ends and has {:?} open", self.run.open))?;
        ensure(self.run.active.is_empty(), || format!("the run ends and {:?} are at work", self.run.active))?;
        self.run.ids = None;
        self.run.failed = name == "RUN_ERROR";
        Ok(())
    }
}
