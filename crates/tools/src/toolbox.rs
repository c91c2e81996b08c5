//! The tools of one workspace, under the names it gives them.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use garret_core::path::quote;
use garret_core::{Capabilities, Error, ErrorKind, Result, ToolsConfig, shape};
use garret_workspace::Workspace;
use serde_json::Value;

use crate::limits::Limits;
use crate::tool::AnyTool;
use crate::{Answer, Definition, ExportFormat, export, naming, registry, text};

/// What the event of a call says whose tool does not exist.
const UNKNOWN: &str = "unknown_tool";

/// A workspace with the tools that its capabilities give it. Cheap to clone.
#[derive(Clone)]
pub struct Toolbox {
    workspace: Workspace,
    limits: Limits,
    offered: Arc<[Offered]>,
    /// Canonical names of the tools that [`Toolbox::only`] left out.
    deselected: Arc<[&'static str]>,
}

#[derive(Clone)]
struct Offered {
    name: String,
    tool: &'static dyn AnyTool,
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
    /// The tools of a workspace with the default capabilities.
    pub fn new(workspace: Workspace, config: ToolsConfig) -> Self {
        Self::with_capabilities(workspace, config, &Capabilities::default())
    }

    /// The tools of a workspace with `capabilities`; one that is not declared has no tools. The policies of the capabilities are the
    /// workspace's own matter.
    pub fn with_capabilities(workspace: Workspace, config: ToolsConfig, capabilities: &Capabilities) -> Self {
        let offer = |tool: &'static dyn AnyTool| Offered {
            name: naming::name(config.naming, workspace.name(), tool.name(), tool.short()),
            tool,
        };
        let offered = registry::tools(capabilities, &workspace).map(offer).collect();
        let limits = Limits::of(&config);
        Self {
            workspace,
            limits,
            offered,
            deselected: Arc::default(),
        }
    }

    /// The workspace.
    pub fn workspace(&self) -> &Workspace {
        &self.workspace
    }

    /// The same tools on another view of the workspace, for instance one with another actor. Names stay as they are.
    #[must_use]
    pub fn on(&self, workspace: Workspace) -> Self {
        Self {
            workspace,
            ..self.clone()
        }
    }

    /// The toolbox with the tools in `names` alone, each by its canonical name or by the one under which it is offered. A name of no tool,
    /// or of one that the workspace does not offer, is `invalid`. What is left out can be neither seen nor called.
    pub fn only(&self, names: &[impl AsRef<str>]) -> Result<Self> {
        let is_named = |offered: &Offered, name: &str| offered.name == name || offered.tool.name() == name;
        for name in names.iter().map(AsRef::as_ref) {
            if !self.offered.iter().any(|offered| is_named(offered, name)) {
                return Err(self.not_offered(name));
            }
        }
        let is_wanted = |offered: &Offered| names.iter().any(|name| is_named(offered, name.as_ref()));
        let deselected = self.offered.iter().filter(|offered| !is_wanted(offered));
        Ok(Self {
            offered: self
                .offered
                .iter()
                .filter(|offered| is_wanted(offered))
                .cloned()
                .collect(),
            deselected: deselected.map(|offered| offered.tool.name()).collect(),
            ..self.clone()
        })
    }

    /// The toolbox without the tools that could only refuse on files that are read-only.
    #[must_use]
    pub fn for_reading(&self) -> Self {
        let is_useful = |offered: &&Offered| !registry::needs_writing(offered.tool);
        Self {
            offered: self.offered.iter().filter(is_useful).cloned().collect(),
            ..self.clone()
        }
    }

    /// Why a tool that exists is not offered, or how to have it; `None` for a name of no tool, and for a tool that is offered.
    pub fn absence_of(&self, name: &str) -> Option<String> {
        let capability = registry::capability_of(name)?;
        let mut offered = self.offered.iter().map(|offered| offered.tool.name());
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

    /// What is offered, always in the same order.
    pub fn definitions(&self) -> Vec<Definition> {
        let definition = |offered: &Offered| offered.definition(&self.workspace);
        self.offered.iter().map(definition).collect()
    }

    /// The definitions as another party takes them.
    pub fn export(&self, format: ExportFormat) -> Value {
        export::export(&self.definitions(), format)
    }

    /// Calls a tool by the name under which it is offered. Whatever is wrong, the name and the arguments included, is an answer.
    pub async fn call(&self, name: &str, arguments: Value) -> Answer {
        self.call_where(name, |offered| offered.name.as_str(), arguments).await
    }

    /// Calls a tool by its canonical name (`read_file`), whatever the naming.
    pub async fn call_canonical(&self, name: &str, arguments: Value) -> Answer {
        self.call_where(name, |offered| offered.tool.name(), arguments).await
    }

    async fn call_where(&self, name: &str, key: impl Fn(&Offered) -> &str, arguments: Value) -> Answer {
        let found = self.offered.iter().find(|offered| key(offered) == name);
        let outcome = match found {
            Some(offered) => self.run(offered.tool, arguments).await,
            None => Err(self.recorded(UNKNOWN, self.unknown(name, self.offered.iter().map(&key)))),
        };
        let mut answer = outcome.unwrap_or_else(|error| self.failure(error));
        for notice in self.workspace.take_pause_notices() {
            answer.text.push('\n');
            answer.text.push_str(&notice);
        }
        answer
    }

    async fn run(&self, tool: &dyn AnyTool, arguments: Value) -> Result<Answer> {
        let call = tool.call(&self.workspace, arguments, &self.limits);
        // A fault of ours must not leave the caller without an answer; each call works on what it holds alone. What was under way has
        // left its event as it was unwound.
        let outcome = AssertUnwindSafe(call).catch_unwind().await;
        let outcome = outcome.unwrap_or_else(|_| Err(broken().during(tool.name())));
        // What failed in the workspace left its event there; what did not get so far leaves it here.
        outcome.map_err(|error| match error.operation() {
            Some(_) => error,
            None => self.recorded(tool.name(), error.during(tool.name())),
        })
    }

    fn recorded(&self, operation: &'static str, error: Error) -> Error {
        self.workspace.record_failure(operation, &error);
        error
    }

    /// A failure as an answer; even a message is bounded.
    fn failure(&self, error: Error) -> Answer {
        let answer = Answer::of_error(error);
        let text = text::bounded(&answer.text, &self.limits);
        Answer { text, ..answer }
    }

    /// The error for a tool that cannot be selected: it is of a capability that is not declared, or it does not exist.
    fn not_offered(&self, name: &str) -> Error {
        if let Some(absence) = self.absence_of(name) {
            let message = format!("this workspace does not offer the tool {}", quote(name));
            return Error::invalid(message).hint(absence);
        }
        self.unknown(name, self.offered.iter().map(|offered| offered.name.as_str()))
    }

    fn unknown<'a>(&self, name: &str, names: impl Iterator<Item = &'a str> + Clone) -> Error {
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
        let by_another_name = self.offered.iter().position(|offered| offered.is_known_as(name));
        let meant = by_another_name.and_then(|index| names.clone().nth(index));
        let hint = match meant.or_else(|| shape::nearest(name, names)) {
            Some(near) => format!("did you mean `{near}`? Tools: {known}"),
            None => format!("the tools are {known}"),
        };
        Error::invalid(format!("there is no tool {}", quote(name))).hint(hint)
    }
}

fn broken() -> Error {
    Error::new(ErrorKind::Internal, "the tool failed because of a defect in Garret")
        .hint("check the state of the files before you repeat the call, and report the defect")
}

impl Offered {
    /// Whether another naming calls the tool so.
    fn is_known_as(&self, name: &str) -> bool {
        let last = name.rsplit("__").next().unwrap_or(name);
        let last = last.strip_prefix("workspace_").unwrap_or(last);
        last == self.tool.name() || last == self.tool.short()
    }

    fn definition(&self, workspace: &Workspace) -> Definition {
        Definition {
            name: self.name.clone(),
            canonical: self.tool.name(),
            title: self.tool.title(),
            description: self.tool.description().to_owned(),
            input_schema: self.tool.input_schema(workspace),
            output_schema: self.tool.output_schema(),
            annotations: self.tool.annotations(),
        }
    }
}
