//! Finds the content that only logs refer to, so that garbage collection spares it, however long a log waits to enter
//! the journal.

#![allow(
    clippy::disallowed_methods,
    reason = "this file looks at the logs in the depot's home"
)]

use std::path::Path;

use garret_core::{Placed, Result};

use super::log;
use super::record::{FoundEntry, Held, LoggedStep, Operation, Record, Work};
use crate::content::Address;
use crate::error;

/// Returns the addresses that the logs below `home` refer to.
pub(crate) fn named_by_logs(home: &Path) -> Result<Vec<Address>> {
    let folder = home.join("journals");
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut named = Vec::new();
    for file in std::fs::read_dir(folder).map_err(|failure| error::home(&failure))? {
        let path = file.map_err(|failure| error::home(&failure))?.path();
        if path
            .extension()
            .is_some_and(|ending| ending == "log" || ending == "old")
        {
            for record in log::records_in(&path)? {
                named.extend(addresses(&record));
            }
        }
    }
    Ok(named)
}

fn addresses(record: &Record) -> Vec<Address> {
    let stored = |held: &Held| match held {
        Held::Stored { address, .. } => Some(*address),
        Held::Inline(_) => None,
    };
    let of_step = |step: &LoggedStep| step.content.as_ref().and_then(stored);
    let of_entry = |entry: &FoundEntry| entry.thing.as_ref()?.content.as_ref().and_then(stored);
    match record {
        Record::Found(found) => found.entries.iter().filter_map(of_entry).collect(),
        Record::Intent(intent) => match &intent.work {
            Work::Batch { steps, .. } => steps.iter().filter_map(of_step).collect(),
            Work::Operation(Operation::Put(puts)) => {
                let of_put = |put: &garret_core::Put| match &put.placed {
                    Placed::Image(image) => image.content.map(|address| Address(address.0)),
                    _ => None,
                };
                puts.puts.iter().filter_map(of_put).collect()
            }
            Work::Operation(_) => Vec::new(),
        },
        Record::Closed { .. } | Record::Aborted { .. } => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use garret_core::{Follow, Mutation, WsPath};

    use super::super::record::{Authorship, Intent};
    use super::*;

    #[test]
    fn an_intent_names_the_content_that_it_left_in_the_depot() {
        let step = |content| LoggedStep {
            mutation: Mutation::write(WsPath::root(), ""),
            content: Some(content),
        };
        let address = Address::of(b"large");
        let stored = Held::Stored { address, size: 5 };
        let steps = vec![step(Held::Inline("small".into())), step(stored)];
        let intent = Intent {
            id: 1,
            by: Authorship::default(),
            work: Work::Batch {
                follow: Follow::Never,
                steps,
            },
        };
        assert_eq!(addresses(&Record::Intent(intent)), [address]);
        assert_eq!(addresses(&Record::Aborted { id: 1 }), []);
    }
}
