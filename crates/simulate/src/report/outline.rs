//! A plan and a transcript, for people.

use std::fmt::Write as _;

use anabranch_proto::Scope;

use crate::{
    plan::{AgentPlan, Child, ForeignPlan, Meddling, Part, Plan, TurnEnd, Work},
    run::Record,
};

/// A plan, a line a thing.
#[must_use]
pub fn outline(plan: &Plan) -> String {
    let mut text = String::new();
    line(&mut text, 0, format!("{:?}", plan.limits));
    if let Some(retention) = plan.retention {
        line(&mut text, 0, format!("the log keeps {retention} bytes"));
    }
    for prompt in &plan.prompts {
        let queued = if prompt.queued { ", queued" } else { "" };
        line(&mut text, 0, format!("prompt a{}{queued}, {:?}", prompt.agent.number, prompt.reply));
        agent(&mut text, 1, &prompt.agent);
    }
    for reader in &plan.readers {
        line(&mut text, 0, format!("{reader:?}"));
    }
    for cancel in &plan.cancels {
        line(&mut text, 0, format!("{cancel:?}"));
    }
    line(&mut text, 0, format!("ends by {:?}", plan.ending));
    text
}

fn line(text: &mut String, depth: usize, what: impl AsRef<str>) {
    // Writing into a text does not fail.
    writeln!(text, "{:indent$}{}", "", what.as_ref(), indent = 2 * depth).ok();
}

fn agent(text: &mut String, depth: usize, agent: &AgentPlan) {
    for (number, turn) in agent.turns.iter().enumerate() {
        let end =
            if turn.end == TurnEnd::Done { String::new() } else { format!(", ends with {:?}", turn.end) };
        line(text, depth, format!("turn {number} of a{}{end}", agent.number));
        for part in &turn.parts {
            let Part::Call(call) = part else {
                line(text, depth + 1, format!("{part:?}"));
                continue;
            };
            let repeated = if call.repeated { " as call_0" } else { "" };
            let in_parts = if call.in_parts { " in parts" } else { "" };
            let meddling = if call.meddling == Meddling::None {
                String::new()
            } else {
                format!(", layer {:?}", call.meddling)
            };
            let ask = call.ask.map(|ask| format!(", asks: {ask:?}")).unwrap_or_default();
            let begin = format!("call {}{repeated}{in_parts}{meddling}{ask}", call.number);
            match &call.work {
                Work::Tool { behaviour, exclusive } => {
                    let alone = if *exclusive { " alone" } else { "" };
                    line(text, depth + 1, format!("{begin}: {behaviour:?}{alone}"));
                }
                Work::External(answered) => {
                    line(
                        text,
                        depth + 1,
                        format!("{begin}: somebody else's, answered after {answered:?} ms"),
                    );
                }
                Work::Refused(refusal) => line(text, depth + 1, format!("{begin}: {refusal:?}")),
                Work::Spawn(spawn) => {
                    let by = if spawn.by_tool { "spawn_subagent" } else { "a tool's own spawn" };
                    let timeout = spawn.timeout.map(|millis| format!(", {millis} ms")).unwrap_or_default();
                    let name = match &spawn.child {
                        Child::Agent(agent) => format!("a{}", agent.number),
                        Child::Foreign(foreign) => format!("f{}", foreign.number),
                        Child::Team(team) => {
                            let order = if team.parallel { "side by side" } else { "one after another" };
                            format!("t{}, {order}", team.number)
                        }
                    };
                    let fork = if spawn.fork { ", forked" } else { "" };
                    line(text, depth + 1, format!("{begin}: {by} of {name}{timeout}{fork}, {:?}", spawn.way));
                    match &spawn.child {
                        Child::Agent(child) => self::agent(text, depth + 2, child),
                        Child::Foreign(child) => foreign(text, depth + 2, child),
                        Child::Team(team) => {
                            for member in &team.members {
                                line(text, depth + 2, format!("member a{}", member.number));
                                self::agent(text, depth + 3, member);
                            }
                        }
                    }
                }
            }
        }
    }
}

fn foreign(text: &mut String, depth: usize, plan: &ForeignPlan) {
    let ForeignPlan { number, prompt, words, pause, nested, end } = plan;
    line(text, depth, format!("f{number}: prompt {prompt}, {words} words, {pause} ms, ends with {end:?}"));
    if let Some(nested) = nested {
        foreign(text, depth + 1, nested);
    }
}

/// The events of a run, a line each: number, time, who, what.
#[must_use]
pub fn transcript(record: &Record) -> Vec<String> {
    let lines = record.log.iter().map(|admitted| {
        let event = &admitted.event;
        let who = match &event.scope {
            Scope::Root => "root",
            Scope::Child(child) => &*child.source_name,
        };
        let mut line = format!(
            "{:>5} {:>8} {who:<6} {}",
            admitted.seq,
            event.created_at.unix_millis() % 100_000_000,
            event.kind.tag()
        );
        let json =
            serde_json::to_value(anabranch_proto::native::Native::new(None, event)).unwrap_or_default();
        let json = if json.get("event").is_some() { json["event"].clone() } else { json };
        for key in [
            "name",
            "tool_call_id",
            "child_session_id",
            "state",
            "delta",
            "outcome",
            "finished_reason",
            "error",
        ] {
            if let Some(value) = json.get(key).filter(|value| !value.is_null()) {
                let value: String = value.to_string().chars().take(80).collect();
                write!(line, " {key}={value}").ok();
            }
        }
        line
    });
    lines.collect()
}
