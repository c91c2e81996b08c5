//! The journal over files that live outside the depot.

use std::sync::Arc;

use garret_core::{Error, ErrorKind, HistoryMode, OpenContext, Opened, Result};
use garret_depot::{Depot, DepotOptions, Journaled, LazyDepot};

use crate::Garret;

impl Garret {
    /// Gives what was opened a history, unless it has one or is to have none: durable in the home where its place can be found again,
    /// and otherwise for as long as it is open.
    pub(crate) async fn journaled(&self, opened: Opened, context: &OpenContext) -> Result<Opened> {
        if opened.history.is_some() || context.history == HistoryMode::Off {
            return Ok(opened);
        }
        let depot = match (&self.home, context.history, &opened.place) {
            (Some(home), HistoryMode::Durable, Some(_)) => home.lazy(context),
            _ => {
                let depot = Depot::in_memory(DepotOptions::default(), context.clone())?;
                Arc::new(LazyDepot::opened(depot))
            }
        };
        let (place, reference, durability) = (opened.place.clone(), opened.reference.clone(), opened.durability);
        let journaled = Journaled::open(opened, depot, durability).await?;
        Ok(Opened {
            history: Some(journaled.clone()),
            place,
            reference,
            durability,
            ..journaled.into()
        })
    }
}

/// The error for a durable history of files that cannot be found again.
pub(crate) fn has_no_place(kind: &str) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        format!("the storage `{kind}` does not say where its files are, so their history cannot be kept"),
    )
    .hint("set `history` to `session`")
}
