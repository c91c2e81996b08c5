//! Finds the content that only logs refer to, so that garbage collection spares it, however long a log waits to enter
//! the journal.

#![allow(
    clippy::disallowed_methods,
    reason = "this file looks at the logs in the depot's home"
)]

use std::path::Path;

use garret_core::{PlacedEntry, Result};

use super::log;
use super::record::{FoundEntry, IntentWork, LogRecord, LoggedStep, RecordContent};
use crate::content::PieceAddress;
use crate::error;

/// Returns the addresses that the logs below `home` refer to.
pub(crate) fn addresses_in_logs(home: &Path) -> Result<Vec<PieceAddress>> {
    let folder = home.join("journals");
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut named = Vec::new();
    for file in std::fs::read_dir(folder).map_err(error::home_not_usable)? {
        let path = file.map_err(error::home_not_usable)?.path();
        if path
            .extension()
            .is_some_and(|ending| ending == "log" || ending == "old")
        {
            for record in log::records_in(&path)? {
                named.extend(addresses_in_record(&record));
            }
        }
    }
    Ok(named)
}

fn addresses_in_record(record: &LogRecord) -> Vec<PieceAddress> {
    let stored = |held: &RecordContent| match held {
        RecordContent::Stored { address, .. } => Some(*address),
        RecordContent::Inline(_) => None,
    };
    let of_step = |step: &LoggedStep| step.content.as_ref().and_then(stored);
    let of_entry = |entry: &FoundEntry| entry.thing.as_ref()?.content.as_ref().and_then(stored);
    match record {
        LogRecord::Found(found) => found.entries.iter().filter_map(of_entry).collect(),
        LogRecord::Intent(intent) => match &intent.work {
            IntentWork::Batch { steps, .. } => steps.iter().filter_map(of_step).collect(),
            IntentWork::Put(puts) => {
                let of_put = |put: &garret_core::PathPut| match &put.placed {
                    PlacedEntry::Image(image) => image.content.map(|address| PieceAddress(address.0)),
                    _ => None,
                };
                puts.puts.iter().filter_map(of_put).collect()
            }
            IntentWork::Operation(_) => Vec::new(),
        },
        LogRecord::Closed { .. } | LogRecord::Aborted { .. } => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use garret_core::{Follow, Mutation, WsPath};

    use super::super::record::{ChangeAuthorship, ChangeIntent};
    use super::*;

    #[test]
    fn an_intent_names_the_content_that_it_left_in_the_depot() {
        let step = |content| LoggedStep {
            mutation: Mutation::write(WsPath::root(), ""),
            content: Some(content),
        };
        let address = PieceAddress::of_bytes(b"large");
        let stored = RecordContent::Stored { address, size: 5 };
        let steps = vec![step(RecordContent::Inline("small".into())), step(stored)];
        let intent = ChangeIntent {
            id: 1,
            by: ChangeAuthorship::default(),
            work: IntentWork::Batch {
                follow: Follow::Never,
                steps,
            },
        };
        assert_eq!(addresses_in_record(&LogRecord::Intent(intent)), [address]);
        assert_eq!(addresses_in_record(&LogRecord::Aborted { id: 1 }), []);
    }
}
