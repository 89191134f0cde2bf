//! Workers, which analyse a file each.

use anabranch_runtime::{Agent, ModelRequest, SpawnArguments, SpawnSubagent};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    Assignment, Shared,
    master::task,
    speech::results,
    steps::{Step, agent, call, read},
};
use crate::{
    columns::ColumnFigures,
    findings::{Findings, columns_text, parse_columns},
    plan::Node,
    result_files,
    shown::{abridged, listed},
    tools::{
        Aggregated, Contents, Filtered, Found, LeftOut, Selection, aggregate, filter_rows, read_csv,
        write_result,
    },
};

/// The agent for a spawn of `n1` or `n2`: it reads, filters, aggregates and writes. Where it may spawn, a sub-agent of
/// its own aggregates.
pub(super) fn worker(shared: &Shared, node: Node, arguments: &SpawnArguments) -> Agent {
    const SYSTEM: &str =
        "You analyse one CSV file with your tools and report the figures that they gave you.";
    let fault = shared.fault(node);
    let workspace = || shared.workspace.clone();
    let agent = agent("worker", SYSTEM, shared.plan.thinks(), arguments.context.as_deref(), work)
        .tool(read_csv(workspace(), fault))
        .tool(filter_rows(workspace(), fault));
    let agent = if shared.plan.nests(node) {
        let shared = shared.clone();
        let spawn = SpawnSubagent::choosing(move |arguments| helper(&shared, node, arguments));
        agent.tool(spawn.named_by(|_| Some("aggregate".to_owned())).described_by(task))
    } else {
        agent.tool(aggregate(workspace(), fault))
    };
    agent.tool(write_result(workspace(), fault)).build()
}

/// The agent that aggregates for a worker.
fn helper(shared: &Shared, node: Node, arguments: &SpawnArguments) -> Agent {
    const SYSTEM: &str = "You compute the figures of a CSV file with your tool and report them.";
    agent("helper", SYSTEM, shared.plan.thinks(), arguments.context.as_deref(), help)
        .tool(aggregate(shared.workspace.clone(), shared.fault(node)))
        .build()
}

/// What a worker tells its helper beside the task: which figures it needs.
#[derive(Debug, Serialize, Deserialize)]
struct Needed {
    file: String,
    rows: Selection,
    columns: Vec<String>,
}

fn work(told: &Assignment, request: &ModelRequest) -> Result<Step, String> {
    let Assignment { file, rows, result, .. } = told;
    let answers = results(request)?;
    let contents = |answer: &str| read::<Contents>(answer);
    match answers.as_slice() {
        [] => call("read_csv", &json!({ "file": file })),
        [read_csv] => {
            let columns = contents(read_csv)?.numeric;
            call("filter_rows", &json!({ "file": file, "rows": rows, "columns": columns }))
        }
        [read_csv, _] => {
            let needed = Needed { file: file.clone(), rows: *rows, columns: contents(read_csv)?.numeric };
            if request.tools.iter().any(|tool| &*tool.name == "aggregate") {
                return call("aggregate", &needed);
            }
            let task = format!("Compute count, sum, mean, min and max of each column of {file}, {rows}.");
            call("spawn_subagent", &json!({ "task": task, "context": json!(needed).to_string() }))
        }
        [_, _, aggregated] => {
            let content = as_csv(&figures(aggregated)?).map_err(|error| error.to_string())?;
            call("write_result", &json!({ "name": result, "content": content }))
        }
        [read_csv, filtered, aggregated, ..] => {
            let findings = Findings {
                filtered: read::<Filtered>(filtered)?,
                columns: figures(aggregated)?,
                written: result.clone(),
                left_out: left_out(&contents(read_csv)?.left_out),
            };
            Ok(Step::Done(findings.to_string()))
        }
    }
}

fn help(needed: &Needed, request: &ModelRequest) -> Result<Step, String> {
    match results(request)?.as_slice() {
        [] => call("aggregate", needed),
        [aggregated, ..] => Ok(Step::Done(columns_text(&figures(aggregated)?))),
    }
}

/// Which columns were left out, and why.
fn left_out(columns: &[LeftOut]) -> Option<String> {
    let text = |LeftOut { column, found }: &LeftOut| {
        let reason = found.as_ref().map(|Found { line, cell }| format!("line {line}: `{cell}`"));
        format!("{} ({})", abridged(column), reason.as_deref().unwrap_or("empty"))
    };
    (!columns.is_empty()).then(|| listed(columns.iter().map(text)))
}

/// The figures that `aggregate` gave, or that a helper reported.
fn figures(answer: &str) -> Result<Vec<ColumnFigures>, String> {
    match parse_columns(answer) {
        Some(columns) => Ok(columns),
        None => read::<Aggregated>(answer).map(|aggregated| aggregated.columns),
    }
}

/// The figures as the text of a CSV file.
fn as_csv(columns: &[ColumnFigures]) -> Result<String, csv::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(result_files::COLUMNS)?;
    for ColumnFigures { column, count, sum, mean, min, max } in columns {
        let figures =
            [sum, mean, min, max].map(|figure| figure.map(|figure| figure.to_string()).unwrap_or_default());
        writer.write_record([column.clone(), count.to_string()].iter().chain(&figures))?;
    }
    let bytes = writer.into_inner().map_err(csv::IntoInnerError::into_error)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
