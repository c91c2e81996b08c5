//! Running the server on a pair of streams.

use std::fmt;

use garret::Toolbox;
use rmcp::ServiceExt;
use rmcp::service::ServerInitializeError;
use rmcp::transport::io::stdio_pipes;
use tokio::io::{AsyncRead, AsyncWrite};

use super::transport::LineTransport;
use super::{ServeOptions, ToolboxHandler};

/// Why serving ended, if the client did not close the connection.
#[derive(Debug)]
pub enum ServeError {
    /// The client did not begin as the protocol requires.
    NotMcp,
    /// The streams broke.
    Broken,
}

impl fmt::Display for ServeError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::NotMcp => "the client did not send MCP messages",
            Self::Broken => "the connection to the MCP client broke",
        })
    }
}

impl std::error::Error for ServeError {}

/// Serves on standard input and output until the client closes them. Nothing else may write to standard output
/// meanwhile.
pub async fn serve_stdio(toolbox: Toolbox, options: ServeOptions) -> Result<(), ServeError> {
    let (reader, writer) = stdio_pipes();
    serve(toolbox, options, reader, writer).await
}

/// Serves one client on a pair of streams until it closes them. Calls that still run then are given a few seconds to
/// answer.
pub async fn serve(
    toolbox: Toolbox,
    options: ServeOptions,
    reader: impl AsyncRead + Send + Unpin + 'static,
    writer: impl AsyncWrite + Send + Unpin + 'static,
) -> Result<(), ServeError> {
    let transport = LineTransport::new(reader, writer);
    let service = match ToolboxHandler::new(toolbox, options).serve(transport).await {
        Ok(service) => service,
        // A client may close the connection before its first message; that is no error.
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(ServerInitializeError::TransportError { .. }) => return Err(ServeError::Broken),
        Err(_) => return Err(ServeError::NotMcp),
    };
    service.waiting().await.map(|_| ()).map_err(|_| ServeError::Broken)
}
