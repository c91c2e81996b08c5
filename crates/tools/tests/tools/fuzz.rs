//! The tools of the past on random arguments; testkit tries the others the same way.

use std::sync::Arc;

use futures::executor::block_on;
use garret_core::{HistoryMode, OpenContext, RandomIds, SystemClock};
use garret_depot::{Depot, DepotOptions, NewWorkspace};
use garret_testkit::fuzz::{Random, ToolRoom, tool_args_in};

async fn room(depot: &Depot) -> ToolRoom {
    let room = depot.create(NewWorkspace::unnamed()).await.unwrap();
    ToolRoom {
        storage: Arc::new(room.clone()),
        history: Some(Arc::new(room)),
    }
}

#[test]
fn tools_with_a_history_hold_their_promises_on_random_arguments() {
    let context = OpenContext {
        clock: Arc::new(SystemClock::default()),
        ids: Arc::new(RandomIds),
        history: HistoryMode::Durable,
    };
    let depot = Depot::in_memory(DepotOptions::default(), context).unwrap();
    let mut random = Random::new(7);
    for _ in 0..1_500 {
        let length = random.below(40) as usize;
        let data: Vec<u8> = (0..length).map(|_| random.next_number() as u8).collect();
        block_on(async { tool_args_in(room(&depot).await, &data).await });
    }
}
