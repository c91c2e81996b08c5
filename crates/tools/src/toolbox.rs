//! The tools of one workspace, under the names that it gives them.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use garret_core::path::quote;
use garret_core::{Capabilities, Error, ErrorKind, Result, ToolsConfig, shape};
use garret_workspace::Workspace;
use serde_json::Value;

use crate::tool::AnyTool;
use crate::{AnswerLimits, Definition, ExportFormat, ToolAnswer, export, naming, registry, text};

/// The operation in the event of a call to a tool that does not exist.
const UNKNOWN: &str = "unknown_tool";

/// A workspace with the tools that its capabilities give it. Cheap to clone.
#[derive(Clone)]
pub struct Toolbox {
    workspace: Workspace,
    limits: AnswerLimits,
    offered: Arc<[OfferedTool]>,
    /// Canonical names of the tools that [`Toolbox::only`] left out.
    deselected: Arc<[&'static str]>,
}

#[derive(Clone)]
struct OfferedTool {
    name: String,
    tool: &'static AnyTool,
}

impl std::fmt::Debug for Toolbox {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> = self.offered.iter().map(|offered| &offered.name).collect();
        formatter
            .debug_struct("Toolbox")
            .field("tools", &names)
            .finish_non_exhaustive()
    }
}

impl Toolbox {
    /// Makes the toolbox of a workspace with the default capabilities.
    pub fn new(workspace: Workspace, config: ToolsConfig) -> Self {
        Self::with_capabilities(workspace, config, &Capabilities::default())
    }

    /// Makes the toolbox of a workspace with `capabilities`; an undeclared capability has no tools. The workspace
    /// itself enforces the policies of the capabilities.
    pub fn with_capabilities(workspace: Workspace, config: ToolsConfig, capabilities: &Capabilities) -> Self {
        let offer = |tool: &'static AnyTool| OfferedTool {
            name: naming::tool_name(config.naming, workspace.name(), tool.name, tool.short_name),
            tool,
        };
        let offered = registry::offered_tools(capabilities, &workspace).map(offer).collect();
        let limits = AnswerLimits::from_config(&config);
        Self {
            workspace,
            limits,
            offered,
            deselected: Arc::default(),
        }
    }

    /// Returns the workspace.
    pub fn workspace(&self) -> &Workspace {
        &self.workspace
    }

    /// Returns these tools on another view of the workspace, for instance one with another actor. The names stay.
    #[must_use]
    pub fn on(&self, workspace: Workspace) -> Self {
        Self {
            workspace,
            ..self.clone()
        }
    }

    /// Returns the toolbox with only the tools in `names`, each by its canonical name or by the one under which it is
    /// offered. A name of no tool, or of one that the workspace does not offer, is `invalid`. The other tools can be
    /// neither seen nor called.
    pub fn only(&self, names: &[impl AsRef<str>]) -> Result<Self> {
        let is_named = |offered: &OfferedTool, name: &str| offered.name == name || offered.tool.name == name;
        // A misspelled name must not leave out a tool in silence.
        for name in names.iter().map(AsRef::as_ref) {
            if !self.offered.iter().any(|offered| is_named(offered, name)) {
                return Err(self.not_offered_error(name));
            }
        }
        let is_wanted = |offered: &OfferedTool| names.iter().any(|name| is_named(offered, name.as_ref()));
        let deselected = self.offered.iter().filter(|offered| !is_wanted(offered));
        Ok(Self {
            offered: self
                .offered
                .iter()
                .filter(|offered| is_wanted(offered))
                .cloned()
                .collect(),
            deselected: deselected.map(|offered| offered.tool.name).collect(),
            ..self.clone()
        })
    }

    /// Returns the toolbox without the tools that could only refuse on read-only files.
    #[must_use]
    pub fn for_reading(&self) -> Self {
        let is_useful = |offered: &&OfferedTool| !registry::needs_writing(offered.tool);
        Self {
            offered: self.offered.iter().filter(is_useful).cloned().collect(),
            ..self.clone()
        }
    }

    /// Returns why an existing tool is not offered, or how to get it; `None` for a name of no tool, and for a tool that
    /// is offered.
    pub fn absence_of(&self, name: &str) -> Option<String> {
        let capability = registry::capability_of(name)?;
        let mut offered = self.offered.iter().map(|offered| offered.tool.name);
        if offered.clone().any(|one| one == name) {
            return None;
        }
        if self.deselected.contains(&name) {
            return Some("it is not among the selected tools (`--tools`)".to_owned());
        }
        let is_declared = offered.any(|one| registry::capability_of(one) == Some(capability));
        Some(match capability {
            _ if self.workspace.policy().read_only && is_declared => "the files are read-only".to_owned(),
            _ if is_declared => "this workspace cannot serve it".to_owned(),
            "shell" | "code" => {
                format!("declare `{capability}` for the workspace, or start the server with --{capability}")
            }
            _ => format!("declare `{capability}` for the workspace"),
        })
    }

    /// Returns the definitions of the offered tools, always in the same order.
    pub fn definitions(&self) -> Vec<Definition> {
        let definition = |offered: &OfferedTool| offered.tool.definition(offered.name.clone(), &self.workspace);
        self.offered.iter().map(definition).collect()
    }

    /// Returns the definitions in the format of another party.
    pub fn export(&self, format: ExportFormat) -> Value {
        export::export_definitions(&self.definitions(), format)
    }

    /// Calls a tool by the name under which it is offered. Any error, also a wrong name or wrong arguments, is an
    /// answer.
    pub async fn call(&self, name: &str, arguments: Value) -> ToolAnswer {
        self.call_where(name, |offered| offered.name.as_str(), arguments).await
    }

    /// Calls a tool by its canonical name (`read_file`), independent of the naming.
    pub async fn call_canonical(&self, name: &str, arguments: Value) -> ToolAnswer {
        self.call_where(name, |offered| offered.tool.name, arguments).await
    }

    async fn call_where(&self, name: &str, key: impl Fn(&OfferedTool) -> &str, arguments: Value) -> ToolAnswer {
        let found = self.offered.iter().find(|offered| key(offered) == name);
        let outcome = match found {
            Some(offered) => self.run_tool(offered.tool, arguments).await,
            None => Err(self.record_error(UNKNOWN, self.unknown_tool_error(name, self.offered.iter().map(&key)))),
        };
        let mut answer = outcome.unwrap_or_else(|error| self.failure_answer(error));
        // A notice about a command that a pause ended goes with the next answer, of whichever tool.
        for notice in self.workspace.take_pause_notices() {
            answer.text.push('\n');
            answer.text.push_str(&notice);
        }
        answer
    }

    async fn run_tool(&self, tool: &AnyTool, arguments: Value) -> Result<ToolAnswer> {
        let call = (tool.call)(&self.workspace, arguments, &self.limits);
        // A defect of Garret must not leave the caller without an answer, and each call works only on state of its own.
        // An operation that was under way has recorded its event while it was unwound.
        let outcome = AssertUnwindSafe(call).catch_unwind().await;
        let outcome = outcome.unwrap_or_else(|_| Err(defect_error().during_operation(tool.name)));
        // An error of the workspace has its operation and was recorded there; any other error is recorded here.
        outcome.map_err(|error| match error.operation() {
            Some(_) => error,
            None => self.record_error(tool.name, error.during_operation(tool.name)),
        })
    }

    fn record_error(&self, operation: &'static str, error: Error) -> Error {
        self.workspace.record_failure(operation, &error);
        error
    }

    /// Returns a failure as an answer; even a message is bounded.
    fn failure_answer(&self, error: Error) -> ToolAnswer {
        let answer = ToolAnswer::from_error(error);
        let text = text::bound_text(&answer.text, &self.limits);
        ToolAnswer { text, ..answer }
    }

    /// Returns the error for a tool that cannot be selected: its capability is not declared, or it does not exist.
    fn not_offered_error(&self, name: &str) -> Error {
        if let Some(absence) = self.absence_of(name) {
            let message = format!("this workspace does not offer the tool {}", quote(name));
            return Error::invalid(message).hint(absence);
        }
        self.unknown_tool_error(name, self.offered.iter().map(|offered| offered.name.as_str()))
    }

    fn unknown_tool_error<'a>(&self, name: &str, names: impl Iterator<Item = &'a str> + Clone) -> Error {
        if self.offered.is_empty() {
            let message = format!("there is no tool {}: this workspace offers none", quote(name));
            return Error::new(ErrorKind::Unsupported, message)
                .hint("declare a capability such as `fs` for the workspace");
        }
        let known = names
            .clone()
            .map(|name| format!("`{name}`"))
            .collect::<Vec<_>>()
            .join(", ");
        // A model may know the tool by the name of another naming, which `nearest_name` would not find.
        let by_another_name = self.offered.iter().position(|offered| offered.is_known_as(name));
        let meant = by_another_name.and_then(|index| names.clone().nth(index));
        let hint = match meant.or_else(|| shape::nearest_name(name, names)) {
            Some(near) => format!("did you mean `{near}`? Tools: {known}"),
            None => format!("the tools are {known}"),
        };
        Error::invalid(format!("there is no tool {}", quote(name))).hint(hint)
    }
}

fn defect_error() -> Error {
    Error::new(ErrorKind::Internal, "the tool failed because of a defect in Garret")
        .hint("check the state of the files before you repeat the call, and report the defect")
}

impl OfferedTool {
    /// Returns whether another naming calls the tool by this name.
    fn is_known_as(&self, name: &str) -> bool {
        let last = name.rsplit("__").next().unwrap_or(name);
        let last = last.strip_prefix("workspace_").unwrap_or(last);
        last == self.tool.name || last == self.tool.short_name
    }
}
