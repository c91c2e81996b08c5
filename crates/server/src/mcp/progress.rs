//! Progress of a call, for a client that asked for it.
//!
//! The amount of work of a search or a copy is not known before it is done, so progress has no total: it counts up at
//! the start, while the call runs, and at its end, with the time it has taken. A call that waits for another command
//! names that command at once.

use std::time::Duration;

use garret::TurnWaiting;
use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RequestContext};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

const PERIOD: Duration = Duration::from_millis(500);

/// Sends the progress of one call to the client; sends nothing if the client did not ask for it.
pub(super) struct CallProgress<'a> {
    asked: Option<(ProgressToken, Peer<RoleServer>)>,
    tool: &'a str,
    steps: u32,
}

impl<'a> CallProgress<'a> {
    /// Creates the progress of a call; the request says whether the client wants it.
    pub(super) fn new(context: &RequestContext<RoleServer>, tool: &'a str) -> Self {
        let asked = context
            .meta
            .get_progress_token()
            .map(|token| (token, context.peer.clone()));
        Self { asked, tool, steps: 0 }
    }

    /// Runs `call`, and sends progress at its start, while it runs, and at its end. While the call waits for its turn,
    /// `turn` holds the command that has the turn.
    pub(super) async fn report_during<T>(
        mut self,
        call: impl Future<Output = T>,
        mut turn: watch::Receiver<Option<TurnWaiting>>,
    ) -> T {
        if self.asked.is_none() {
            return call.await;
        }
        let mut call = std::pin::pin!(call);
        let mut ticks = interval(PERIOD);
        // A client that reads slowly delays the ticks; they must not come all at once afterwards.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first tick of an interval completes immediately.
        let started = ticks.tick().await;
        self.send_progress("started".to_owned()).await;
        loop {
            tokio::select! {
                outcome = &mut call => {
                    self.send_progress("finished".to_owned()).await;
                    return outcome;
                }
                _ = ticks.tick() => {}
                Ok(()) = turn.changed() => {}
            }
            let waiting = turn.borrow_and_update().as_ref().map(TurnWaiting::describe);
            let state = match waiting {
                Some(command) => format!("waiting for {command}"),
                None => format!("running for {:.1} s", started.elapsed().as_secs_f64()),
            };
            self.send_progress(state).await;
        }
    }

    async fn send_progress(&mut self, state: String) {
        if let Some((token, peer)) = &self.asked {
            let step = ProgressNotificationParam::new(token.clone(), f64::from(self.steps))
                .with_message(format!("{}: {state}", self.tool));
            self.steps += 1;
            // A failed send is ignored: if the client is gone, the end of the connection ends the call.
            let _ = peer.notify_progress(step).await;
        }
    }
}
