//! Progress of a call, for a client that asked for it.
//!
//! How much work a search or a copy has ahead is not known before it is done, so progress has no total: it counts up at the start,
//! while the call runs, and at its end, with the time it has taken. A call that waits for another command says at once for which.

use std::time::Duration;

use garret::TurnWaiting;
use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RequestContext};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

const PERIOD: Duration = Duration::from_millis(500);

/// Tells the client how one call goes on; silent where it did not ask.
pub(super) struct Progress<'a> {
    asked: Option<(ProgressToken, Peer<RoleServer>)>,
    tool: &'a str,
    steps: u32,
}

impl<'a> Progress<'a> {
    /// Reads from the request whether progress is wanted.
    pub(super) fn of(context: &RequestContext<RoleServer>, tool: &'a str) -> Self {
        let asked = context
            .meta
            .get_progress_token()
            .map(|token| (token, context.peer.clone()));
        Self { asked, tool, steps: 0 }
    }

    /// Runs `call`, telling its start, that it goes on, and its end. While it waits for its turn, `turn` holds the command that has it.
    pub(super) async fn during<T>(
        mut self,
        call: impl Future<Output = T>,
        mut turn: watch::Receiver<Option<TurnWaiting>>,
    ) -> T {
        if self.asked.is_none() {
            return call.await;
        }
        let mut call = std::pin::pin!(call);
        let mut ticks = interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first tick comes at once.
        let started = ticks.tick().await;
        self.tell("started".to_owned()).await;
        loop {
            tokio::select! {
                outcome = &mut call => {
                    self.tell("finished".to_owned()).await;
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
            self.tell(state).await;
        }
    }

    async fn tell(&mut self, state: String) {
        if let Some((token, peer)) = &self.asked {
            let step = ProgressNotificationParam::new(token.clone(), f64::from(self.steps))
                .with_message(format!("{}: {state}", self.tool));
            self.steps += 1;
            // A client that went away ends the call by itself; there is nobody to tell.
            let _ = peer.notify_progress(step).await;
        }
    }
}
