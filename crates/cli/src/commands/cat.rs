//! `garret cat`

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use garret::{Encoding, FileContent, ReadRequest, Unit, Workspace};

use crate::output::{Format, Outcome, Pipe, Report};
use crate::point::At;
use crate::session::Session;

#[derive(Debug, Args)]
pub(crate) struct Cat {
    /// The file
    path: String,
    /// How many lines to skip
    #[arg(long, default_value_t = 0, value_name = "LINES")]
    offset: u64,
    /// The maximum number of lines to print
    #[arg(long, value_name = "LINES")]
    limit: Option<u64>,
    /// Count bytes instead of lines
    #[arg(long)]
    bytes: bool,
    #[command(flatten)]
    at: At,
}

impl Cat {
    pub(crate) async fn run(&self, session: &Session) -> Outcome {
        let workspace = session.workspace_at(self.at.point()).await?;
        match session.global().format() {
            Format::Json => self.as_data(&workspace).await,
            Format::Text => self.as_bytes(&workspace).await,
        }
    }

    fn request(&self, encoding: Option<Encoding>) -> ReadRequest {
        let unit = if self.bytes { Unit::Bytes } else { Unit::Lines };
        ReadRequest {
            unit,
            offset: self.offset,
            limit: self.limit,
            encoding,
            ..ReadRequest::default()
        }
    }

    async fn as_data(&self, workspace: &Workspace) -> Outcome {
        let content = workspace.read(&self.path, self.request(None)).await?;
        Ok(Report::done(content.content.clone(), content))
    }

    /// Prints the file, or a part of it, byte for byte.
    async fn as_bytes(&self, workspace: &Workspace) -> Outcome {
        let is_whole = self.offset == 0 && self.limit.is_none();
        if is_whole || self.bytes {
            // As a stream, because the file may be larger than memory.
            let end = self.limit.map_or(u64::MAX, |limit| self.offset.saturating_add(limit));
            let mut pipe = Pipe::default();
            workspace
                .read_stream(&self.path, self.offset..end, |piece| pipe.put(&piece))
                .await?;
            return Ok(pipe.done());
        }
        // As base64, so that bytes that are not UTF-8 arrive unchanged.
        let content: FileContent = workspace.read(&self.path, self.request(Some(Encoding::Base64))).await?;
        Ok(Report::raw(
            STANDARD.decode(&content.content).expect("Garret made this base64"),
        ))
    }
}
