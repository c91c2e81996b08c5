//! A toolbox as an MCP server.

use garret::{Actor, Ids, Toolbox, TurnWaiting};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CustomRequest, CustomResult, ErrorCode, Implementation, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::Value;
use tokio::sync::watch;

use super::convert;
use super::progress::CallProgress;

/// How many characters of the names of a client and its calls are kept with each change.
const NAME_CHARACTERS: usize = 200;
/// The keys in the metadata of a request that may hold the model's id of the call; the first one present counts. The
/// first key is Garret's own, the other is sent by Claude Code and the Claude Agent SDK.
const CALL_ID_KEYS: [&str; 2] = ["garret/toolCallId", "claudecode/toolUseId"];
/// How many characters of an id name a session.
const SESSION_LETTERS: usize = 12;

/// How a toolbox is served.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ServeOptions {
    /// Whether tools have output schemas and answers carry data beside the text. Several clients show a model only the
    /// data if there is any, without the line numbers and hints of the text.
    pub structured: bool,
}

/// Serves one toolbox to one client. Lists and calls use the same toolbox, so a tool that is not listed cannot be
/// called.
#[derive(Debug, Clone)]
pub struct ToolboxHandler {
    toolbox: Toolbox,
    /// The list of tools. Made once: schemas do not change while a workspace is open.
    tools: Vec<Tool>,
    /// The session of all changes of this connection.
    session: String,
    options: ServeOptions,
}

impl ToolboxHandler {
    /// Creates a handler for `toolbox`. Its session is the one that the actor of the toolbox names, or a new one.
    pub fn new(toolbox: Toolbox, options: ServeOptions) -> Self {
        let tool = |definition| convert::convert_tool(definition, options);
        let tools = toolbox.definitions().into_iter().map(tool).collect();
        let session = toolbox.workspace().actor().session.clone();
        // Without a session of its own, the ids of calls would be ambiguous: clients count them from the start with
        // every connection.
        let session = session.unwrap_or_else(|| new_session(toolbox.workspace().ids()));
        Self {
            toolbox,
            tools,
            session,
            options,
        }
    }

    /// Returns the toolbox, with its operations attributed to this call of this client, and a receiver that shows when
    /// it waits for other commands.
    fn toolbox_for(&self, context: &RequestContext<RoleServer>) -> (Toolbox, watch::Receiver<Option<TurnWaiting>>) {
        let workspace = self.toolbox.workspace();
        let actor = Actor {
            agent: context.client_info().map(|client| shorten_name(&client.name)),
            session: Some(self.session.clone()),
            tool_call: Some(call_id(context)),
            ..workspace.actor().clone()
        };
        let (sender, turn) = watch::channel(None);
        let toolbox = self.toolbox.on(workspace.acting_as(actor).watching_turns(sender));
        (toolbox, turn)
    }

    fn unknown_tool_error(&self, name: &str) -> ErrorData {
        let near = || {
            let near = garret::shape::nearest_name(name, self.tools.iter().map(|tool| tool.name.as_ref()));
            near.map(|near| format!("did you mean {near}?"))
        };
        let hint = self.toolbox.absence_of(name).or_else(near);
        let hint = hint.map_or_else(String::new, |hint| format!(" ({hint})"));
        ErrorData::invalid_params(
            format!("Unknown tool: {}{hint}", garret::path::escape_unprintable(name)),
            None,
        )
    }

    fn instructions(&self) -> String {
        let workspace = self.toolbox.workspace();
        let limits = if workspace.policy().read_only {
            " It is read-only."
        } else {
            ""
        };
        let has = |tool: &str| self.toolbox.definitions().iter().any(|one| one.canonical == tool);
        let versions = if has("write_file") {
            " `stat` and every write give a `version`; pass it as `if_version` when you write, so that no other change is lost."
        } else {
            ""
        };
        let commands = if has("run") {
            " Commands run in a sandbox in which the files are at /workspace; all effects of a command on the files are one change."
        } else {
            ""
        };
        let way_back = if has("undo") {
            " Every change can be undone: `history` lists the changes, `undo` undoes one."
        } else {
            ""
        };
        format!(
            "The tools work on the files of one workspace, `{}`.{limits} Paths are relative to its root; `/a`, `a` and `/workspace/a` are one \
             file, and nothing outside can be reached. A failed call says why and what to try instead.{versions} Long results are paged: the last line says how to go on.{commands}{way_back}",
            garret::path::escape_unprintable(workspace.name()),
        )
    }
}

impl ServerHandler for ToolboxHandler {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("garret", env!("CARGO_PKG_VERSION")).with_title("Garret"))
            .with_instructions(self.instructions())
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools.clone()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.tools.iter().find(|tool| tool.name == name).cloned()
    }

    /// Answers a request that the SDK does not recognise.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        // A known method with parameters of a wrong shape arrives here, too; "method not found" would mislead its
        // client.
        Err(match request.method.as_str() {
            "tools/call" => ErrorData::invalid_params(wrong_call_message(request.params.as_ref()), None),
            "tools/list" => ErrorData::invalid_params("the parameters of tools/list are an object", None),
            method => {
                let message = format!("Method not found: {}", garret::path::escape_unprintable(method));
                ErrorData::new(ErrorCode::METHOD_NOT_FOUND, message, None)
            }
        })
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if !self.tools.iter().any(|tool| tool.name == request.name) {
            return Err(self.unknown_tool_error(&request.name));
        }
        let (toolbox, turn) = self.toolbox_for(&context);
        let arguments = request.arguments.map_or(Value::Null, Value::Object);
        let call = toolbox.call(&request.name, arguments);
        let answer = tokio::select! {
            answer = CallProgress::new(&context, &request.name).report_during(call, turn) => answer,
            // Dropping the future of the call ends it at its next await; the client no longer waits for the answer.
            () = context.ct.cancelled() => return Err(ErrorData::internal_error("the call was cancelled", None)),
        };
        Ok(convert::convert_answer(answer, self.options).into())
    }
}

/// Returns the model's id of the call if the client sends it, else the id of the request.
fn call_id(context: &RequestContext<RoleServer>) -> String {
    let told = CALL_ID_KEYS.iter().filter_map(|key| context.meta.get(*key)?.as_str());
    let told = told.map(shorten_name).find(|id| !id.is_empty());
    told.unwrap_or_else(|| shorten_name(&context.id.to_string()))
}

/// Shortens a name that a client sent, so that it cannot fill the journal.
fn shorten_name(name: &str) -> String {
    name.chars().take(NAME_CHARACTERS).collect()
}

/// Returns the name of a new session: the end of an id.
fn new_session(ids: &dyn Ids) -> String {
    let id = ids.next_id();
    // The end of an id is enough to tell connections apart, and a person can type it.
    let start = id.len().saturating_sub(SESSION_LETTERS);
    id[start..].trim_start_matches('-').to_owned()
}

/// Returns the message for wrong parameters of a call.
fn wrong_call_message(params: Option<&Value>) -> &'static str {
    match params {
        Some(params) if !params["name"].is_string() => "tools/call needs the `name` of a tool, a string",
        Some(params) if params.get("arguments").is_some_and(|arguments| !arguments.is_object()) => {
            "the `arguments` of tools/call are an object"
        }
        Some(_) => "the parameters of tools/call have a wrong shape",
        None => "tools/call needs parameters: the `name` of a tool and its `arguments`",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_calls_itself_is_kept_as_far_as_anybody_reads() {
        assert_eq!(shorten_name("claude"), "claude");
        assert_eq!(shorten_name(&"é".repeat(70_000)).chars().count(), NAME_CHARACTERS);
    }
}
