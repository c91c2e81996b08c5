//! JSON-RPC messages as lines on a pair of streams.
//!
//! The SDK's own transport drops a line that it cannot read, and its client then waits forever. This one answers every
//! line: a line that is not JSON with a parse error, a line that is no message or is too long with an invalid request.
//! The error carries the id of the damaged request if one can be found, because a client waits for its id. After an
//! error the connection goes on.
//!
//! Two more messages would leave a client without an answer, and are handled here: a request with the id of a request
//! that is still running, and a notification or response before `initialize`, at which the SDK ends the connection.

use std::collections::HashSet;
use std::io;
use std::sync::{Arc, MutexGuard, PoisonError};

use rmcp::RoleServer;
use rmcp::model::{ClientNotification, ClientRequest, ErrorCode, JsonRpcMessage, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use super::request_id::IdScanner;

/// The largest message that is read. The content of a large file fits, and a line without an end cannot fill the
/// memory.
pub const MAX_MESSAGE_BYTES: usize = 64 << 20;
/// The most values (members, elements) in one message. A parsed value takes some hundred bytes, a written one as little
/// as two.
const MAX_MESSAGE_VALUES: usize = 250_000;
/// The most requests of one batch that are refused one by one.
const MAX_BATCH_REPLIES: usize = 1_000;
/// How many bytes of capacity the line buffer keeps between two messages.
const KEPT_CAPACITY: usize = 1 << 20;
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Reads and writes one message a line.
pub(super) struct LineTransport<R, W> {
    reader: BufReader<R>,
    /// The beginning of the next line. Kept here and not in a future, because the SDK drops the future of a read when
    /// something else happens first.
    line: Vec<u8>,
    /// Searches for the id in a line that became too long; `None` for a line within the limit.
    oversized: Option<IdScanner>,
    writer: Arc<Mutex<Option<W>>>,
    /// The error replies that are being written; a task, so that a dropped read does not leave half a line on the wire.
    replying: Option<JoinHandle<()>>,
    running: RunningRequests,
    is_initialized: bool,
    max_bytes: usize,
}

/// The ids of the requests that were not answered yet.
#[derive(Clone, Default)]
struct RunningRequests(Arc<std::sync::Mutex<HashSet<RequestId>>>);

impl RunningRequests {
    fn lock_ids(&self) -> MutexGuard<'_, HashSet<RequestId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the id of a request that is answered.
    fn remove_answered(&self, message: &TxJsonRpcMessage<RoleServer>) {
        let id = match message {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
        };
        id.map(|id| self.lock_ids().remove(id));
    }
}

/// The result of reading a line.
enum ReadLineOutcome {
    /// A whole line, now in the buffer.
    Whole,
    /// The end of a line that was too long, and the id found in it.
    Oversized(Option<Value>),
    /// The end of the input.
    End,
}

impl<R, W> LineTransport<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    pub(super) fn new(reader: R, writer: W) -> Self {
        Self {
            reader: BufReader::new(reader),
            line: Vec::new(),
            oversized: None,
            writer: Arc::new(Mutex::new(Some(writer))),
            replying: None,
            running: RunningRequests::default(),
            is_initialized: false,
            max_bytes: MAX_MESSAGE_BYTES,
        }
    }

    /// Reads up to the end of a line. Bytes that were read stay in the transport if this future is dropped.
    async fn read_line(&mut self) -> ReadLineOutcome {
        loop {
            // A stream that fails delivers no more bytes, like one that ended.
            let available = self.reader.fill_buf().await.unwrap_or_default();
            let is_end = available.is_empty();
            let newline = available.iter().position(|byte| *byte == b'\n');
            let used = newline.map_or(available.len(), |at| at + 1);
            let bytes = &available[..newline.unwrap_or(available.len())];
            match &mut self.oversized {
                Some(scanner) => scanner.feed(bytes),
                None if self.line.len() + bytes.len() > self.max_bytes => {
                    let mut scanner = IdScanner::default();
                    scanner.feed(&self.line);
                    scanner.feed(bytes);
                    self.line = Vec::new();
                    self.oversized = Some(scanner);
                }
                None => self.line.extend_from_slice(bytes),
            }
            self.reader.consume(used);
            let is_whole = newline.is_some() || is_end;
            match is_whole.then(|| self.oversized.take()) {
                None => {}
                Some(Some(scanner)) => return ReadLineOutcome::Oversized(scanner.id()),
                Some(None) if is_end && self.line.is_empty() => return ReadLineOutcome::End,
                Some(None) => return ReadLineOutcome::Whole,
            }
        }
    }

    /// Takes the message out of the line buffer; `None` for a line without one: it is blank, was answered with an
    /// error, or is an unknown notification.
    async fn take_message(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        let mut line = std::mem::take(&mut self.line);
        let read = read_message(&line);
        line.clear();
        // One large message must not occupy its memory for the rest of the connection.
        line.shrink_to(KEPT_CAPACITY);
        self.line = line;
        match read.and_then(|message| message.map_or(Ok(None), |message| self.admit_message(message))) {
            Ok(message) => message,
            Err(replies) => {
                self.start_replies(replies).await;
                None
            }
        }
    }

    /// Passes a message on, drops one that the protocol does not expect yet, or refuses a request whose id is in use.
    fn admit_message(
        &mut self,
        message: RxJsonRpcMessage<RoleServer>,
    ) -> Result<Option<RxJsonRpcMessage<RoleServer>>, Vec<Value>> {
        match &message {
            JsonRpcMessage::Request(request) => {
                self.is_initialized |= matches!(request.request, ClientRequest::InitializeRequest(_));
                if !self.running.lock_ids().insert(request.id.clone()) {
                    let message = "a request with this id is still running; give each request its own id";
                    let id = serde_json::to_value(&request.id).ok();
                    return Err(vec![error_reply(ErrorCode::INVALID_REQUEST, message, id)]);
                }
            }
            _ if !self.is_initialized => return Ok(None),
            // A cancelled request gets no answer, so its id is free.
            JsonRpcMessage::Notification(sent) => {
                if let ClientNotification::CancelledNotification(cancelled) = &sent.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.running.lock_ids().remove(id);
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
        Ok(Some(message))
    }

    /// Starts to write error replies, after the earlier ones are written.
    async fn start_replies(&mut self, replies: Vec<Value>) {
        // Waits, so that replies to a client that does not read cannot pile up in memory.
        self.finish_replying().await;
        let writer = self.writer.clone();
        self.replying = Some(tokio::spawn(async move {
            for reply in replies {
                // A client that closed the connection needs no reply; the next read ends the connection.
                let _ = write_line(&writer, reply.to_string().into_bytes()).await;
            }
        }));
    }

    async fn finish_replying(&mut self) {
        if let Some(task) = &mut self.replying {
            let _ = task.await;
            self.replying = None;
        }
    }
}

impl<R, W> Transport<RoleServer> for LineTransport<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        let writer = self.writer.clone();
        // Before the answer is written: as soon as the client has read it, the client may use the id again.
        self.running.remove_answered(&message);
        async move { write_line(&writer, serde_json::to_vec(&message)?).await }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            match self.read_line().await {
                ReadLineOutcome::Whole => {
                    if let Some(message) = self.take_message().await {
                        return Some(message);
                    }
                }
                ReadLineOutcome::Oversized(id) => {
                    let reply = error_reply(ErrorCode::INVALID_REQUEST, &oversized_message(self.max_bytes), id);
                    self.start_replies(vec![reply]).await;
                }
                ReadLineOutcome::End => {
                    self.finish_replying().await;
                    return None;
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        self.finish_replying().await;
        self.writer.lock().await.take();
        Ok(())
    }
}

async fn write_line<W: AsyncWrite + Unpin>(writer: &Mutex<Option<W>>, mut line: Vec<u8>) -> Result<(), io::Error> {
    line.push(b'\n');
    let mut writer = writer.lock().await;
    let writer = writer.as_mut().ok_or(io::ErrorKind::NotConnected)?;
    writer.write_all(&line).await?;
    writer.flush().await
}

/// Parses one line: a message, `None` for a line that needs no answer, or the error replies.
fn read_message(line: &[u8]) -> Result<Option<RxJsonRpcMessage<RoleServer>>, Vec<Value>> {
    let line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line).trim_ascii();
    if line.is_empty() {
        return Ok(None);
    }
    // Counted before the line is parsed: parsed values take many times the memory of their text.
    if has_more_values_than(line, MAX_MESSAGE_VALUES) {
        let mut scanner = IdScanner::default();
        scanner.feed(line);
        let message = format!("the message has more than {MAX_MESSAGE_VALUES} values, which is the limit");
        return Err(vec![error_reply(ErrorCode::INVALID_REQUEST, &message, scanner.id())]);
    }
    serde_json::from_slice(line)
        .map(Some)
        .or_else(|_| match serde_json::from_slice(line) {
            Ok(value) => answer_non_message(&value),
            Err(error) => {
                let message = format!("the line is not valid JSON: {error}");
                let mut scanner = IdScanner::default();
                scanner.feed(line);
                Err(vec![error_reply(ErrorCode::PARSE_ERROR, &message, scanner.id())])
            }
        })
}

/// Answers JSON that is no message: an unknown notification is ignored, as the protocol requires; everything else gets
/// an error, a batch one for each of its requests.
fn answer_non_message(value: &Value) -> Result<Option<RxJsonRpcMessage<RoleServer>>, Vec<Value>> {
    let refused = |message: &str, id| error_reply(ErrorCode::INVALID_REQUEST, message, id);
    match value {
        Value::Object(object) if object.contains_key("method") && !object.contains_key("id") => Ok(None),
        Value::Array(batch) => {
            let message = "batches are not supported: send each message on a line of its own";
            let ids: Vec<_> = batch.iter().filter_map(usable_id).collect();
            Err(if ids.is_empty() || ids.len() > MAX_BATCH_REPLIES {
                vec![refused(message, None)]
            } else {
                ids.into_iter().map(|id| refused(message, Some(id))).collect()
            })
        }
        value => {
            let message = "the line is JSON, but not a JSON-RPC 2.0 message";
            Err(vec![refused(message, usable_id(value))])
        }
    }
}

/// Counts the values of a JSON text by the characters that begin or separate them, without parsing it. Characters in
/// strings do not count.
fn has_more_values_than(text: &[u8], most: usize) -> bool {
    let (mut count, mut is_string, mut is_escaped) = (0, false, false);
    for byte in text {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = is_string,
            b'"' => is_string = !is_string,
            b',' | b'[' | b'{' if !is_string => count += 1,
            _ => {}
        }
    }
    count > most
}

fn usable_id(message: &Value) -> Option<Value> {
    message.get("id").filter(|id| id.is_string() || id.is_number()).cloned()
}

/// Returns an error reply as JSON.
fn error_reply(code: ErrorCode, message: &str, id: Option<Value>) -> Value {
    // Not the SDK's error type: it leaves out an unknown id, and JSON-RPC requires null.
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code.0, "message": message}})
}

fn oversized_message(max_bytes: usize) -> String {
    format!(
        "the message has more than {max_bytes} bytes, which is the limit; write a larger file in parts with `append_file`"
    )
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, duplex};

    use super::*;

    /// Returns the answers of a transport with a small limit to `input`, and the number of messages that it passed on.
    async fn answers(input: &[u8]) -> (Vec<Value>, usize) {
        let (ours, mut theirs) = duplex(1 << 20);
        let mut transport = LineTransport::new(input, ours);
        transport.max_bytes = 300;
        let mut messages = 0;
        while Transport::receive(&mut transport).await.is_some() {
            messages += 1;
        }
        Transport::close(&mut transport).await.unwrap();
        let mut written = String::new();
        theirs.read_to_string(&mut written).await.unwrap();
        let answers = written
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        (answers, messages)
    }

    async fn only_answer(input: &[u8]) -> (i64, Value) {
        let (answers, messages) = answers(input).await;
        assert_eq!((answers.len(), messages), (1, 0), "{}", String::from_utf8_lossy(input));
        (answers[0]["error"]["code"].as_i64().unwrap(), answers[0]["id"].clone())
    }

    #[tokio::test]
    async fn a_line_that_is_not_json_is_a_parse_error_with_the_id_that_it_has() {
        let deep = format!(r#"{{"id":3,"x":{}1{}}}"#, "[".repeat(130), "]".repeat(130));
        let lines: [(&[u8], Value); 8] = [
            (
                br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"\ud800"}}"#,
                json!(1),
            ),
            (
                b"{\"method\":\"ping\",\"params\":{\"x\":\"\xff\"},\"jsonrpc\":\"2.0\",\"id\":2}",
                json!(2),
            ),
            (deep.as_bytes(), json!(3)),
            (br#"{"jsonrpc":"2.0","id":"four","method":"#, json!("four")),
            (br#"{"params":{"id":5},"method":"ping""#, Value::Null),
            (b"hello", Value::Null),
            (b"\x00\x01", Value::Null),
            (b"{\"id\":7,\"method\":\"a\tb\"}", json!(7)),
        ];
        for (line, id) in lines {
            assert_eq!(only_answer(&[line, b"\n"].concat()).await, (-32700, id));
        }
    }

    #[tokio::test]
    async fn json_that_is_no_message_is_an_invalid_request() {
        for (line, id) in [
            ("42", Value::Null),
            ("{}", Value::Null),
            (r#"{"jsonrpc":"1.0","id":3,"method":"ping"}"#, json!(3)),
            (r#"{"jsonrpc":"2.0","id":"x"}"#, json!("x")),
            (r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, Value::Null),
            ("[]", Value::Null),
            (r#"[{"jsonrpc":"2.0","id":8,"method":"ping"}]"#, json!(8)),
        ] {
            assert_eq!(
                only_answer(format!("{line}\n").as_bytes()).await,
                (-32600, id),
                "{line}"
            );
        }
        let batch = r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]"#;
        let (answers, _) = answers(batch.as_bytes()).await;
        assert_eq!((&answers[0]["id"], &answers[1]["id"]), (&json!(1), &json!(2)));
    }

    #[tokio::test]
    async fn a_message_above_the_limit_is_refused_by_its_id_wherever_that_is() {
        let long = "x".repeat(100_000);
        for (line, id) in [
            (
                format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"x":"{long}"}}}}"#),
                json!(1),
            ),
            (
                format!(r#"{{"method":"ping","params":{{"id":9,"x":"{long}"}},"jsonrpc":"2.0","id":"two"}}"#),
                json!("two"),
            ),
            (format!(r#"{{"method":"{long}"#), Value::Null),
            (long.clone(), Value::Null),
        ] {
            assert_eq!(
                only_answer(line.as_bytes()).await,
                (-32600, id.clone()),
                "at the end of the input"
            );
            assert_eq!(only_answer(format!("{line}\n").as_bytes()).await, (-32600, id));
        }
    }

    #[tokio::test]
    async fn the_connection_goes_on_after_an_error() {
        let ping = |id: u32| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
        let long = "x".repeat(1000);
        let (one, two, three, four) = (ping(1), ping(2), ping(3), ping(4));
        let input = format!("{one}\nbroken\n\n{two}\r\n{long}\n  \n\u{feff}{three}\n{four}");
        let (answers, messages) = answers(input.as_bytes()).await;
        assert_eq!((answers.len(), messages), (2, 4));
    }

    #[tokio::test]
    async fn a_request_with_the_id_of_a_running_one_is_refused() {
        let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        let (refused, messages) = answers(format!("{ping}\n{ping}").as_bytes()).await;
        assert_eq!((refused.len(), messages), (1, 1));
        assert_eq!(
            (&refused[0]["id"], &refused[0]["error"]["code"]),
            (&json!(1), &json!(-32600))
        );
        let initialize = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}"#;
        let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
        let input = format!("{initialize}\n{ping}\n{cancel}\n{ping}");
        assert_eq!(
            answers(input.as_bytes()).await,
            (Vec::new(), 4),
            "a cancelled request frees its id"
        );
    }

    #[tokio::test]
    async fn nothing_but_requests_passes_before_initialize() {
        let early = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        let stray = r#"{"jsonrpc":"2.0","id":9,"result":{}}"#;
        let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        let input = format!("{early}\n{stray}\n{ping}");
        assert_eq!(answers(input.as_bytes()).await, (Vec::new(), 1));
    }

    #[test]
    fn a_message_of_too_many_values_is_refused_before_it_is_parsed() {
        let line = format!(
            r#"{{"jsonrpc":"2.0","id":7,"method":"ping","params":{{"x":[{}1]}}}}"#,
            "[],".repeat(MAX_MESSAGE_VALUES)
        );
        let replies = read_message(line.as_bytes()).unwrap_err();
        assert_eq!((replies.len(), &replies[0]["id"]), (1, &json!(7)));
        let commas = format!(
            r#"{{"jsonrpc":"2.0","id":7,"method":"ping","params":{{"x":"{}\"{}"}}}}"#,
            ",[{".repeat(MAX_MESSAGE_VALUES),
            ","
        );
        assert!(read_message(commas.as_bytes()).is_ok(), "text does not count");
        let batch = format!("[{}1]", r#"{"id":1},"#.repeat(MAX_BATCH_REPLIES + 1));
        assert_eq!(read_message(batch.as_bytes()).unwrap_err().len(), 1);
    }

    #[tokio::test]
    async fn a_notification_that_nobody_knows_is_ignored() {
        let unknown = r#"{"jsonrpc":"2.0","method":"notifications/unheard_of","params":3}"#;
        let (answers, _) = answers(unknown.as_bytes()).await;
        assert!(answers.is_empty(), "{answers:?}");
    }

    #[tokio::test]
    async fn a_line_of_exactly_the_limit_passes() {
        let head = r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":""#;
        let line = format!("{head}{}\"}}}}", "x".repeat(300 - head.len() - 3));
        assert_eq!(line.len(), 300);
        assert_eq!(answers(format!("{line}\n").as_bytes()).await, (Vec::new(), 1));
        let longer = line.replace("xx", "xxx");
        assert_eq!(only_answer(format!("{longer}\n").as_bytes()).await, (-32600, json!(1)));
    }
}
