//! `garret cat`

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use garret::{Encoding, FileContent, ReadRequest, ReadUnit, Workspace};

use crate::output::{CliOutcome, CliReport, Format, StdoutPipe};
use crate::point::PointArgs;
use crate::session::Session;

#[derive(Debug, Args)]
pub(crate) struct CatArgs {
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
    at: PointArgs,
}

impl CatArgs {
    pub(crate) async fn run(&self, session: &Session) -> CliOutcome {
        let workspace = session.open_workspace_at(self.at.point()).await?;
        match session.global().format() {
            Format::Json => self.report_data(&workspace).await,
            Format::Text => self.print_bytes(&workspace).await,
        }
    }

    fn read_request(&self, encoding: Option<Encoding>) -> ReadRequest {
        let unit = if self.bytes { ReadUnit::Bytes } else { ReadUnit::Lines };
        ReadRequest {
            unit,
            offset: self.offset,
            limit: self.limit,
            encoding,
            ..ReadRequest::default()
        }
    }

    async fn report_data(&self, workspace: &Workspace) -> CliOutcome {
        let content = workspace.read(&self.path, self.read_request(None)).await?;
        Ok(CliReport::success(content.content.clone(), content))
    }

    /// Prints the file, or a part of it, byte for byte.
    async fn print_bytes(&self, workspace: &Workspace) -> CliOutcome {
        let is_whole = self.offset == 0 && self.limit.is_none();
        if is_whole || self.bytes {
            // As a stream, because the file may be larger than memory.
            let end = self.limit.map_or(u64::MAX, |limit| self.offset.saturating_add(limit));
            let mut pipe = StdoutPipe::default();
            workspace
                .read_stream(&self.path, self.offset..end, |piece| pipe.put_piece(&piece))
                .await?;
            return Ok(pipe.into_report());
        }
        // As base64, so that bytes that are not UTF-8 arrive unchanged.
        let content: FileContent = workspace
            .read(&self.path, self.read_request(Some(Encoding::Base64)))
            .await?;
        Ok(CliReport::raw_bytes(
            STANDARD.decode(&content.content).expect("Garret made this base64"),
        ))
    }
}
