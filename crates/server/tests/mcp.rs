//! The server in one process with its client: what depends on timing is made to wait on purpose.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails by panicking")]
#![allow(
    clippy::disallowed_methods,
    reason = "a test writes into the directory of a workspace from outside"
)]

use std::sync::Arc;
use std::time::Duration;

use garret::{
    Capabilities, EventOutcome, Garret, Home, MemoryEvents, MemoryStorage, OpenContext, OpenedStorage, Result,
    StorageConfig, StorageFactory, Toolbox, WorkspaceConfig, async_trait,
};
use garret_server::mcp::ServeOptions;
use garret_testkit::{Call, Hook, Hooked};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf, duplex, split};
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Reads wait until they are let go.
#[derive(Debug)]
struct Gate(Arc<Semaphore>);

#[async_trait]
impl Hook for Gate {
    async fn before(&self, call: Call<'_>) {
        if matches!(call, Call::Read(_)) {
            self.0.acquire().await.expect("the gate is never closed").forget();
        }
    }
}

#[derive(Debug)]
struct SlowFactory(Arc<Semaphore>);

#[async_trait]
impl StorageFactory for SlowFactory {
    fn kind(&self) -> &'static str {
        "slow"
    }

    fn parse_url(&self, _rest: &str) -> Result<Map<String, Value>> {
        Ok(Map::new())
    }

    async fn open(&self, _options: Map<String, Value>, context: &OpenContext) -> Result<OpenedStorage> {
        let files = Arc::new(MemoryStorage::new(context.clock.clone()));
        Ok(Arc::new(Hooked::new(files, Gate(self.0.clone()))).into())
    }
}

/// A session with a server on slow storage.
struct Session {
    gate: Arc<Semaphore>,
    events: Arc<MemoryEvents>,
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
}

impl Session {
    async fn open() -> Self {
        Self::open_with(ServeOptions::default()).await
    }

    async fn open_with(options: ServeOptions) -> Self {
        let (gate, events) = (Arc::new(Semaphore::new(0)), Arc::new(MemoryEvents::default()));
        let garret = Garret::new().register(SlowFactory(gate.clone())).events(events.clone());
        let toolbox = garret.open_url("slow:").await.unwrap();
        let mut session = Self::serve(toolbox, options, gate, events).await;
        session
            .call(1, "write_file", json!({"path": "a", "content": "x"}))
            .await;
        assert_eq!(session.next().await["id"], 1);
        session
    }

    async fn serve(toolbox: Toolbox, options: ServeOptions, gate: Arc<Semaphore>, events: Arc<MemoryEvents>) -> Self {
        let (ours, theirs) = duplex(1 << 16);
        let (their_reader, their_writer) = split(theirs);
        tokio::spawn(garret_server::mcp::serve(toolbox, options, their_reader, their_writer));
        let (reader, writer) = split(ours);
        let mut session = Self {
            gate,
            events,
            lines: BufReader::new(reader).lines(),
            writer,
        };
        let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}});
        session
            .send(json!({"id": 0, "method": "initialize", "params": hello}))
            .await;
        let started = session.next().await;
        assert!(
            started["result"]["instructions"]
                .as_str()
                .unwrap()
                .contains("workspace")
        );
        assert_eq!(started["result"]["capabilities"], json!({"tools": {}}));
        session.send(json!({"method": "notifications/initialized"})).await;
        session
    }

    async fn send(&mut self, mut message: Value) {
        message["jsonrpc"] = json!("2.0");
        self.writer.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn send_line(&mut self, line: &[u8]) {
        self.writer.write_all(&[line, b"\n"].concat()).await.unwrap();
    }

    async fn call(&mut self, id: u64, tool: &str, arguments: Value) {
        self.send(json!({"id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments, "_meta": {"progressToken": id}}})).await;
    }

    /// The next message that is no progress.
    async fn next(&mut self) -> Value {
        loop {
            let message = self.message().await;
            if message["method"] != "notifications/progress" {
                return message;
            }
        }
    }

    async fn message(&mut self) -> Value {
        let line = timeout(Duration::from_secs(10), self.lines.next_line())
            .await
            .expect("the server answers")
            .unwrap()
            .unwrap();
        serde_json::from_str(&line).unwrap()
    }
}

#[tokio::test]
async fn a_cancelled_call_is_dropped_and_recorded_as_cancelled() {
    let mut session = Session::open().await;
    session.call(2, "read_file", json!({"path": "a"})).await;
    assert_eq!(
        session.message().await["method"],
        "notifications/progress",
        "the call has begun"
    );
    session
        .send(json!({"method": "notifications/cancelled", "params": {"requestId": 2, "reason": "enough"}}))
        .await;
    session.send(json!({"id": 3, "method": "ping"})).await;
    assert_eq!(session.next().await["id"], 3, "the cancelled call has no answer");
    timeout(Duration::from_secs(5), async {
        while session.events.events().last().map(|event| event.outcome.clone()) != Some(EventOutcome::Cancelled) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("its event says that it was cancelled");
}

#[tokio::test]
async fn a_slow_call_does_not_hold_up_another() {
    let mut session = Session::open().await;
    session.call(2, "read_file", json!({"path": "a"})).await;
    session.call(3, "exists", json!({"path": "a"})).await;
    assert_eq!(session.next().await["id"], 3);
    session.gate.add_permits(10);
    assert_eq!(session.next().await["result"]["content"][0]["text"], "     1\tx");
}

#[tokio::test]
async fn progress_is_told_at_the_start_while_it_lasts_and_at_the_end() {
    let mut session = Session::open().await;
    session.call(7, "read_file", json!({"path": "a"})).await;
    let mut steps = vec![
        session.message().await,
        session.message().await,
        session.message().await,
    ];
    session.gate.add_permits(10);
    loop {
        let message = session.message().await;
        if message["id"] == 7 {
            break;
        }
        steps.push(message);
    }
    let told: Vec<f64> = steps
        .iter()
        .map(|step| step["params"]["progress"].as_f64().unwrap())
        .collect();
    assert!(told.len() >= 4 && told.is_sorted_by(|one, next| one < next), "{told:?}");
    assert!(steps.iter().all(|step| step["params"]["progressToken"] == 7));
    assert_eq!(steps[0]["params"]["message"], "read_file: started");
    assert_eq!(steps.last().unwrap()["params"]["message"], "read_file: finished");
}

#[tokio::test]
async fn a_call_that_waits_for_another_command_names_it_at_once_and_in_its_answer() {
    let (home, directory) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let storage = StorageConfig::Url(format!("local:{}", directory.path().display()));
    let mut config = WorkspaceConfig::with_storage(storage);
    config.capabilities = Capabilities::from_names(["fs", "shell"]).unwrap();
    let garret = Garret::new().home(Home::new(home.path()));
    let toolbox = garret.open_config("box", &config).await.unwrap();
    let mut session = Session::serve(
        toolbox,
        ServeOptions::default(),
        Arc::new(Semaphore::new(0)),
        Arc::default(),
    )
    .await;
    // On `local` a command sees the bell ring. It has the turn once another has to wait for it.
    let bell = directory.path().join("bell");
    std::fs::write(&bell, "").unwrap();
    let text = "until grep -q ring bell; do sleep 0.02; done";
    session.call(1, "run", json!({"command": text})).await;
    session.call(2, "run", json!({"command": text})).await;
    let waiting = loop {
        let message = session.message().await;
        let told = message["params"]["message"].as_str().unwrap_or_default().to_owned();
        if told.contains("waiting") {
            assert!(
                told.starts_with("run: waiting for `until grep -q ring bell; do sleep 0.02; done` (process "),
                "{told}"
            );
            break message["params"]["progressToken"].clone();
        }
    };
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    std::fs::write(&bell, "ring").unwrap();
    for _ in 0..2 {
        let answer = session.next().await;
        let text = answer["result"]["content"][0]["text"].as_str().unwrap();
        assert_eq!(text.contains("; waited "), answer["id"] == waiting, "{answer}");
    }
}

#[tokio::test]
async fn a_client_that_does_not_ask_for_progress_gets_none() {
    let mut session = Session::open().await;
    session
        .send(json!({"id": 2, "method": "tools/call", "params": {"name": "exists", "arguments": {"path": "a"}}}))
        .await;
    assert_eq!(session.message().await["id"], 2);
}

#[tokio::test]
async fn tools_are_listed_with_titles_schemas_and_hints() {
    let mut session = Session::open().await;
    session.send(json!({"id": 2, "method": "tools/list"})).await;
    let tools = session.next().await["result"]["tools"].clone();
    for tool in tools.as_array().unwrap() {
        assert!(tool["title"].is_string() && tool["description"].is_string(), "{tool}");
        assert_eq!(tool["inputSchema"]["type"], "object", "{tool}");
        assert!(tool.get("outputSchema").is_none(), "{tool}");
        for hint in ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"] {
            assert!(tool["annotations"][hint].is_boolean(), "{hint}: {tool}");
        }
    }
}

#[tokio::test]
async fn an_answer_is_text_alone_unless_data_is_wanted_too() {
    let read = json!({"path": "a"});
    let mut session = Session::open().await;
    session.gate.add_permits(10);
    session.call(2, "read_file", read.clone()).await;
    let result = session.next().await["result"].clone();
    assert_eq!(result["content"][0]["text"], "     1\tx");
    assert!(result.get("structuredContent").is_none(), "{result}");
    session.call(3, "read_file", json!({"path": "b"})).await;
    let failed = session.next().await["result"].clone();
    let text = failed["content"][0]["text"].as_str().unwrap();
    assert!(failed["isError"] == true && text.starts_with("not_found"), "{failed}");
    assert!(failed.get("structuredContent").is_none(), "{failed}");

    let mut session = Session::open_with(ServeOptions { structured: true }).await;
    session.gate.add_permits(10);
    session.send(json!({"id": 2, "method": "tools/list"})).await;
    let tools = session.next().await["result"]["tools"].clone();
    let has_schema = |tool: &Value| tool["outputSchema"]["type"] == "object";
    assert!(tools.as_array().unwrap().iter().all(has_schema), "{tools}");
    session.call(3, "read_file", read).await;
    let result = session.next().await["result"].clone();
    assert_eq!(result["structuredContent"]["content"], "x");
    assert_eq!(result["content"][0]["text"], "     1\tx");
}

#[tokio::test]
async fn a_damaged_line_is_answered_and_the_calls_around_it_too() {
    let mut session = Session::open().await;
    session.call(2, "read_file", json!({"path": "a"})).await;
    assert_eq!(session.message().await["method"], "notifications/progress");
    let damaged: [(&[u8], Value); 3] = [
        (
            br#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"exists","arguments":{"path":"\ud800"}}}"#,
            json!(3),
        ),
        (b"{\"method\":\"ping\",\"params\":{\"\xff\":1},\"jsonrpc\":\"2.0\",\"id\":4}", json!(4)),
        (b"]", Value::Null),
    ];
    for (line, id) in damaged {
        session.send_line(line).await;
        let answer = session.next().await;
        assert_eq!(
            (&answer["id"], &answer["error"]["code"]),
            (&id, &json!(-32700)),
            "{answer}"
        );
    }
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    session
        .send_line(format!(r#"{{"id":5,"params":{deep}}}"#).as_bytes())
        .await;
    assert_eq!(session.next().await["id"], 5);
    session.gate.add_permits(10);
    assert_eq!(session.next().await["id"], 2, "the call before them goes on");
}

#[tokio::test]
async fn a_damaged_line_before_the_first_message_does_not_end_the_connection() {
    let toolbox = Garret::new().open_url("memory:").await.unwrap();
    let (ours, theirs) = duplex(1 << 16);
    let (their_reader, their_writer) = split(theirs);
    tokio::spawn(garret_server::mcp::serve(
        toolbox,
        ServeOptions::default(),
        their_reader,
        their_writer,
    ));
    let (reader, mut writer) = split(ours);
    let mut lines = BufReader::new(reader).lines();
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params":
        {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}});
    writer.write_all(format!("{{\n{hello}\n").as_bytes()).await.unwrap();
    let mut answer = async || -> Value { serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap() };
    let mut answers = [answer().await, answer().await];
    answers.sort_by_key(|answer| answer["error"].is_null());
    assert_eq!(answers[0]["error"]["code"], -32700, "{answers:?}");
    assert_eq!(answers[1]["result"]["serverInfo"]["name"], "garret", "{answers:?}");
}

#[tokio::test]
async fn a_call_carries_the_id_that_the_model_gave_it() {
    let mut session = Session::open().await;
    let (own, claude) = ("garret/toolCallId", "claudecode/toolUseId");
    let metas = [
        (json!({}), "2".to_owned()),
        (json!({claude: "toolu_1"}), "toolu_1".to_owned()),
        (json!({claude: "toolu_1", own: "call_1"}), "call_1".to_owned()),
        (json!({own: 7, claude: "toolu_2"}), "toolu_2".to_owned()),
        (json!({own: ""}), "6".to_owned()),
        (json!({own: "x".repeat(300)}), "x".repeat(200)),
    ];
    for (id, (meta, expected)) in (2..).zip(metas) {
        let params = json!({"name": "exists", "arguments": {"path": "a"}, "_meta": meta});
        session
            .send(json!({"id": id, "method": "tools/call", "params": params}))
            .await;
        assert_eq!(session.next().await["id"], id);
        let event = session.events.events().last().unwrap().clone();
        assert_eq!(event.actor.tool_call, Some(expected));
    }
}
