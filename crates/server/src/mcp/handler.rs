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
use super::progress::Progress;

/// How many characters of what a client calls itself and its calls are kept with each change.
const NAME_CHARACTERS: usize = 200;
/// Where the metadata of a request may hold the model's id of the call; the first that is there counts. The first key is Garret's own,
/// the other is sent by Claude Code and the Claude Agent SDK.
const CALL_ID_KEYS: [&str; 2] = ["garret/toolCallId", "claudecode/toolUseId"];
/// How much of an id names a session.
const SESSION_LETTERS: usize = 12;

/// How a toolbox is served.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ServeOptions {
    /// Whether tools have output schemas and answers carry data beside the text. Several clients show a model the data alone where there
    /// is any, without the line numbers and hints of the text.
    pub structured: bool,
}

/// Serves one toolbox to one client. Lists and calls come from the same toolbox, so what is not listed cannot be called.
#[derive(Debug, Clone)]
pub struct Handler {
    toolbox: Toolbox,
    /// Made once: schemas do not change while a workspace is open.
    tools: Vec<Tool>,
    /// What the changes of this connection have in common.
    session: String,
    options: ServeOptions,
}

impl Handler {
    /// Serves `toolbox`. The session is the one that its actor names, or a new one: the ids of calls begin again with every connection,
    /// and mean something only within it.
    pub fn new(toolbox: Toolbox, options: ServeOptions) -> Self {
        let tool = |definition| convert::tool(definition, options);
        let tools = toolbox.definitions().into_iter().map(tool).collect();
        let session = toolbox.workspace().actor().session.clone();
        let session = session.unwrap_or_else(|| new_session(toolbox.workspace().ids()));
        Self {
            toolbox,
            tools,
            session,
            options,
        }
    }

    /// The toolbox, with its operations attributed to this call of this client, and a watch on its wait for other commands.
    fn toolbox_for(&self, context: &RequestContext<RoleServer>) -> (Toolbox, watch::Receiver<Option<TurnWaiting>>) {
        let workspace = self.toolbox.workspace();
        let actor = Actor {
            agent: context.client_info().map(|client| cut(&client.name)),
            session: Some(self.session.clone()),
            tool_call: Some(call_id(context)),
            ..workspace.actor().clone()
        };
        let (sender, turn) = watch::channel(None);
        let toolbox = self.toolbox.on(workspace.acting_as(actor).watching_turns(sender));
        (toolbox, turn)
    }

    fn unknown(&self, name: &str) -> ErrorData {
        let near = || {
            let near = garret::shape::nearest(name, self.tools.iter().map(|tool| tool.name.as_ref()));
            near.map(|near| format!("did you mean {near}?"))
        };
        let hint = self.toolbox.absence_of(name).or_else(near);
        let hint = hint.map_or_else(String::new, |hint| format!(" ({hint})"));
        ErrorData::invalid_params(format!("Unknown tool: {}{hint}", garret::path::printable(name)), None)
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
            garret::path::printable(workspace.name()),
        )
    }
}

impl ServerHandler for Handler {
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

    /// What the SDK could read as no request that it knows. A method of tools with parameters of a wrong shape is one of them, and a
    /// client that is told of an unknown method looks in the wrong place.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        Err(match request.method.as_str() {
            "tools/call" => ErrorData::invalid_params(wrong_call(request.params.as_ref()), None),
            "tools/list" => ErrorData::invalid_params("the parameters of tools/list are an object", None),
            method => {
                let message = format!("Method not found: {}", garret::path::printable(method));
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
            return Err(self.unknown(&request.name));
        }
        let (toolbox, turn) = self.toolbox_for(&context);
        let arguments = request.arguments.map_or(Value::Null, Value::Object);
        let call = toolbox.call(&request.name, arguments);
        let answer = tokio::select! {
            answer = Progress::of(&context, &request.name).during(call, turn) => answer,
            // Dropping the call ends it where it stands; nobody waits for an answer any more.
            () = context.ct.cancelled() => return Err(ErrorData::internal_error("the call was cancelled", None)),
        };
        Ok(convert::result(answer, self.options).into())
    }
}

/// The model's id of the call, where the client tells it; else the id of the request.
fn call_id(context: &RequestContext<RoleServer>) -> String {
    let told = CALL_ID_KEYS.iter().filter_map(|key| context.meta.get(*key)?.as_str());
    let told = told.map(cut).find(|id| !id.is_empty());
    told.unwrap_or_else(|| cut(&context.id.to_string()))
}

fn cut(name: &str) -> String {
    name.chars().take(NAME_CHARACTERS).collect()
}

/// The end of an id: it tells connections apart, and a person can type it.
fn new_session(ids: &dyn Ids) -> String {
    let id = ids.next();
    let start = id.len().saturating_sub(SESSION_LETTERS);
    id[start..].trim_start_matches('-').to_owned()
}

/// What is wrong with the parameters of a call.
fn wrong_call(params: Option<&Value>) -> &'static str {
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
        assert_eq!(cut("claude"), "claude");
        assert_eq!(cut(&"é".repeat(70_000)).chars().count(), NAME_CHARACTERS);
    }
}
