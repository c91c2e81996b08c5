//! The workspace as it was.

use std::sync::Mutex;

use garret_core::{Point, Result};

use crate::Workspace;
use crate::workspace::Shared;

impl Workspace {
    /// The workspace as it was at `point`, for reading, through the same policies. Whatever would change it is `denied`.
    pub async fn at(&self, point: &Point) -> Result<Self> {
        let shared = &self.shared;
        let past = Shared {
            name: shared.name.clone(),
            storage: self.journal()?.at(point).await?,
            history: None,
            reference: None,
            clock: shared.clock.clone(),
            ids: shared.ids.clone(),
            events: shared.events.clone(),
            approver: shared.approver.clone(),
            approved: Mutex::default(),
        };
        Ok(Self {
            shared: std::sync::Arc::new(past),
            ..self.clone()
        })
    }
}
