//! Other programs that change a storage at the worst moment: between two looks, or between the look and the change.

use std::sync::Mutex;

use async_trait::async_trait;
use garret_core::WsPath;
use garret_testkit::{Call, Hook};

/// When others are at work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Moment {
    /// Just before a change is made.
    Change,
    /// Just before something is looked at.
    Look(WsPath),
}

/// Does something once, when its moment has come.
pub(crate) struct Meddler {
    moment: Moment,
    work: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Meddler {
    pub(crate) fn at(moment: Moment, work: impl FnOnce() + Send + 'static) -> Self {
        Self {
            moment,
            work: Mutex::new(Some(Box::new(work))),
        }
    }
}

impl std::fmt::Debug for Meddler {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Meddler")
            .field("moment", &self.moment)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Hook for Meddler {
    async fn before(&self, call: Call<'_>) {
        let has_come = match (call, &self.moment) {
            (Call::Apply, Moment::Change) => true,
            (Call::Stat(path), Moment::Look(wanted)) => path == wanted,
            _ => false,
        };
        let work = has_come
            .then(|| self.work.lock().expect("no holder panics").take())
            .flatten();
        if let Some(work) = work {
            work();
        }
    }
}
