//! What went through.

use super::fault::Fault;
use super::message::Message;

/// One exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The HTTP method, or `LIST` for a `GET` that lists and `COPY` for a `PUT` that copies.
    pub operation: &'static str,
    /// The path and query that were asked for.
    pub target: String,
    /// The status of the server's answer, or of the one given in its place; `None` where nothing was answered.
    pub status: Option<u16>,
    /// What went wrong.
    pub fault: Option<Fault>,
    /// The bytes of the request's body.
    pub sent: usize,
    /// The bytes of the answer's body.
    pub received: usize,
}

/// What a request asks for.
pub(super) fn operation(request: &Message) -> &'static str {
    let is_list = request.target().contains("list-type=2");
    match request.method() {
        "GET" if is_list => "LIST",
        "GET" => "GET",
        "HEAD" => "HEAD",
        "PUT" if request.header("x-amz-copy-source").is_some() => "COPY",
        "PUT" => "PUT",
        "POST" => "POST",
        "DELETE" => "DELETE",
        _ => "OTHER",
    }
}
