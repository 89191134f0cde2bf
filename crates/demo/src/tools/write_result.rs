//! A result as a file.

use anabranch_pipeline::{FunctionTool, Tool, ToolContext};
use anabranch_proto::Artifact;
use schemars::JsonSchema;
use serde::Deserialize;

use super::Fault;
use crate::workspace::Workspace;

#[derive(Debug, Deserialize, JsonSchema)]
struct Args {
    /// The name of the file, without folders.
    name: String,
    /// What to write: CSV text.
    content: String,
}

/// Writes a file into the folder for results and lists it among the files of the response.
pub(crate) fn write_result(workspace: Workspace, fault: Fault) -> impl Tool {
    FunctionTool::new(
        "write_result",
        "Writes CSV text to a file in the folder for results.",
        move |Args { name, content }, context: ToolContext| {
            let workspace = workspace.clone();
            async move {
                fault.check()?;
                let path = workspace.write(&name, &content).map_err(|error| format!("{name}: {error}"))?;
                context.artifact(Artifact::new(name.clone(), path.to_string_lossy(), "text/csv"));
                Ok::<_, String>(format!("wrote {} lines to {name}", content.lines().count()))
            }
        },
    )
}
