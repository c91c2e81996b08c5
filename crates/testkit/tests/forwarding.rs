//! A wrapper that forwards everything keeps the contract, and so does one whose faults never strike.

use std::sync::Arc;

use garret_core::{ErrorKind, MemoryStorage, SystemClock};
use garret_testkit::faults::Call;
use garret_testkit::fixture::block_on;
use garret_testkit::mutations::{append, write};
use garret_testkit::{Fault, FaultStorage, Fixture, Forwarding, Moment, Probe};

fn memory() -> Fixture {
    Fixture::new(Arc::new(MemoryStorage::new(Arc::new(SystemClock::default()))))
}

mod plain {
    use super::*;

    async fn forwarded() -> Fixture {
        memory().wrapped(|inner| Arc::new(Forwarding::new(inner)))
    }

    garret_testkit::conformance_tests!(forwarded);
}

mod faultless {
    use super::*;

    async fn faultless() -> Fixture {
        memory().wrapped(|inner| Arc::new(FaultStorage::planned(inner, Vec::new())))
    }

    garret_testkit::conformance_tests!(faultless);
}

fn faulty(fault: Fault) -> (Probe, Probe) {
    let fixture = memory();
    let below = fixture.probe();
    let above = fixture.wrapped(|inner| Arc::new(FaultStorage::planned(inner, vec![fault])));
    (above.probe(), below)
}

#[test]
fn a_fault_before_the_call_leaves_nothing() {
    let fault = Fault {
        call: Some(Call::Apply),
        after_calls: 1,
        kind: ErrorKind::Unavailable,
        moment: Moment::Before,
    };
    let (above, below) = faulty(fault);
    block_on(async {
        above.write("f", "one").await;
        let error = above.refuses(ErrorKind::Unavailable, write("f", "two")).await;
        assert_eq!(error.path(), Some("f"));
        assert_eq!(below.text("f").await, "one");
        above.write("f", "three").await;
        assert_eq!(below.text("f").await, "three");
    });
}

#[test]
fn a_fault_after_the_call_leaves_the_change() {
    let fault = Fault {
        call: Some(Call::Apply),
        after_calls: 1,
        kind: ErrorKind::Timeout,
        moment: Moment::After,
    };
    let (above, below) = faulty(fault);
    block_on(async {
        above.write("f", "one").await;
        let outcome = above.try_apply(append("f", " two")).await;
        above.expect_error(ErrorKind::Timeout, "the second change", outcome);
        assert_eq!(below.text("f").await, "one two");
    });
}

#[test]
fn a_fault_strikes_the_call_it_names() {
    let fault = Fault {
        call: Some(Call::Read),
        after_calls: 2,
        kind: ErrorKind::Corrupt,
        moment: Moment::Before,
    };
    let (above, _) = faulty(fault);
    block_on(async {
        above.write("f", "x").await;
        for _ in 0..2 {
            assert_eq!(above.text("f").await, "x");
            above.stat("f").await;
        }
        above.expect_error(ErrorKind::Corrupt, "the third read", above.try_read("f").await);
        assert_eq!(above.text("f").await, "x");
    });
}

#[test]
fn seeded_faults_are_the_same_every_time() {
    let outcomes = |seed: u64| {
        let storage = Arc::new(MemoryStorage::new(Arc::new(SystemClock::default())));
        let kinds = vec![ErrorKind::Unavailable, ErrorKind::Timeout];
        let faulty = Arc::new(FaultStorage::seeded(storage, seed, 4, kinds));
        let probe = Probe::new(faulty.clone(), None);
        let seen: Vec<_> = block_on(async {
            let mut seen = Vec::new();
            for index in 0..100 {
                let outcome = probe.try_apply(write(&format!("{index}"), "x")).await;
                seen.push(outcome.err().map(|error| error.kind()));
            }
            seen
        });
        assert_eq!(seen.iter().flatten().count() as u64, faulty.struck());
        seen
    };
    assert_eq!(outcomes(7), outcomes(7));
    assert_ne!(outcomes(7), outcomes(8));
    let struck = outcomes(7).iter().flatten().count();
    assert!(
        (10..50).contains(&struck),
        "about one call in four fails, not {struck} in a hundred"
    );
}
